// Runs many simulated gateways in a process of its own, and reports whenever all of them have applied a revision.
import { setTimeout as sleep } from "node:timers/promises";
import { SimulatedGateway, type Taken } from "../../test/fixtures/clients/simulated-gateway.ts";

export interface CrowdOrder {
  readonly url: string;
  readonly token: string;
  readonly protocol: 1 | 2;
  /** What the gateways' ids begin with. */
  readonly name: string;
  readonly count: number;
}

/** All gateways of this process have applied this revision. */
export interface Reached {
  readonly revision: number;
  /** When each acknowledged it, by `monotonicMs`. */
  readonly timesMs: readonly number[];
  /** Of all of them together. */
  readonly bytes: number;
  readonly snapshots: number;
  readonly deltas: number;
  readonly misfits: number;
  /** How often their sockets were closed since the start. */
  readonly cuts: number;
}

const connectAtOnce = 25;
const againAfterMs = 200;

/** A clock that is the same in all processes of the machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

async function run({ url, token, protocol, name, count }: CrowdOrder): Promise<void> {
  let newest = 0;
  let times: number[] = [];
  let bytes = 0;
  const kinds = { snapshot: 0, delta: 0 };
  const gateways: SimulatedGateway[] = [];
  const onTaken = ({ revision, type, bytes: received }: Taken) => {
    if (revision < newest) return;
    if (revision > newest) {
      newest = revision;
      times = [];
      bytes = 0;
      kinds.snapshot = 0;
      kinds.delta = 0;
    }
    times.push(monotonicMs());
    bytes += received;
    kinds[type] += 1;
    if (times.length === count) tell();
  };
  const tell = () => {
    const sum = (of: "misfits" | "cuts") => gateways.reduce((total, { counts }) => total + counts[of], 0);
    const reached: Reached = {
      revision: newest,
      timesMs: times,
      bytes,
      snapshots: kinds.snapshot,
      deltas: kinds.delta,
      misfits: sum("misfits"),
      cuts: sum("cuts"),
    };
    process.send?.(reached);
  };
  const stayConnected = async (gateway: SimulatedGateway) => {
    for (;;) {
      await gateway.connect();
      await gateway.closed();
      await sleep(againAfterMs);
    }
  };
  for (let i = 0; i < count; i++) {
    const gateway = new SimulatedGateway({ url, token, protocol, id: `${name}-${i}`, onTaken });
    gateways.push(gateway);
    stayConnected(gateway).catch((error) => {
      console.error(error);
      process.exit(1);
    });
    // Those before have their first snapshot before more connect.
    if (i % connectAtOnce === connectAtOnce - 1) while (times.length <= i) await sleep(5);
  }
}

process.once("message", (order: CrowdOrder) => void run(order));
process.on("disconnect", () => process.exit(0));
