// Much more load comes than usual: many requests for one key, or everybody's connections at once.

import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { Load } from "../fixtures/clients/load.ts";
import { askAtOnce } from "../fixtures/clients/requests.ts";
import { SimulatedGateway } from "../fixtures/clients/simulated-gateway.ts";
import { atMost, fact } from "../fixtures/measures/fact.ts";
import { gatewayToken } from "../fixtures/servers/control-plane-under-test.ts";
import type { Plane } from "../fixtures/servers/plane.ts";
import { until } from "../fixtures/until.ts";
import type { Fault } from "./fault.ts";
import { observe, startRedis, startSystem } from "./scenario.ts";
import { TwoPlanes } from "./two-planes.ts";

const hotKey: Fault = {
  number: 18,
  name: "hot key at 10 ×",
  async run(stack) {
    const redis = await startRedis(stack);
    const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: redis.url } });
    const urls = system.gateways.map(({ url }) => `${url}/under-fault`);
    const bystander = new Load(urls, 50, ["bystander"]);
    stack.defer(() => bystander.stop());
    return observe(stack, {
      system,
      limit: { quota: 100, keys: ["hot"], ratePerSecond: 100 },
      decides: "counter",
      async inject(load) {
        bystander.start();
        load.ratePerSecond *= 10;
        await sleep(3000);
        load.ratePerSecond /= 10;
        await bystander.stop();
        return undefined;
      },
      moreFacts({ served, beginMs, endMs }) {
        const offered = served.filter(({ sentAtMs }) => sentAtMs >= beginMs && sentAtMs < endMs).length;
        const others = bystander.served;
        return [
          fact("offered meanwhile, of 1000/s", "≥ 2700", `${offered}`, offered >= 2700),
          atMost(`refused of another key's ${others.length}`, 0, others.filter(({ status }) => status !== 200).length),
        ];
      },
    });
  },
};

/** The number of clients that connect at once, and how often they do. */
const newClients = 300;
const times = 3;

const everyone: Fault = {
  number: 20,
  name: "everyone reconnects at once",
  async run(stack) {
    const redis = await startRedis(stack);
    const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: redis.url } });
    const urls = system.gateways.map(({ url }) => `${url}/under-fault`);
    const statuses: Record<number, number> = {};
    let connectedAfterMs = 0;
    return observe(stack, {
      system,
      decides: "either",
      recoversWithinMs: 2000,
      async inject(load) {
        for (let i = 0; i < times; i++) {
          await system.killControlPlane();
          load.reconnect();
          await redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
          const crowd = askAtOnce(urls, newClients, { headers: { "x-key": `crowd-${i}` } });
          await system.startControlPlane();
          const startedMs = performance.now();
          for (const [status, count] of Object.entries(await crowd)) {
            statuses[Number(status)] = (statuses[Number(status)] ?? 0) + count;
          }
          await system.untilConnected();
          connectedAfterMs = Math.max(connectedAfterMs, performance.now() - startedMs);
        }
        return undefined;
      },
      moreFacts: () => [
        fact(
          `statuses of ${times} × ${newClients} new clients at once`,
          "200, 429",
          Object.keys(statuses).join(", "),
          Object.keys(statuses).join() === "200,429",
        ),
        // Gateways try again after pauses of up to 2 s.
        atMost("until all gateways are back at the control plane", 4000, connectedAfterMs, " ms"),
      ],
    });
  },
};

const simulated = 200;
const policies = 300;
/** Fewer at a time than a control plane has connections to its database. */
const putsAtOnce = 8;
const editsMeanwhile = 3;

/** What a control plane sent, by its own count. */
interface Sent {
  readonly snapshots: number;
  readonly deltas: number;
  readonly bytes: number;
}

async function sentBy(plane: Plane): Promise<Sent> {
  const count = (what: string) => plane.metric(`sluice_control_${what}_sent_total`);
  const [snapshots, deltas] = [await count("snapshots"), await count("deltas")];
  return { snapshots, deltas, bytes: (await count("snapshot_bytes")) + (await count("delta_bytes")) };
}

/** What all simulated gateways got of each. */
function receivedBy(fleet: readonly SimulatedGateway[]): Sent {
  const sum = (what: "snapshots" | "deltas" | "bytes") => fleet.reduce((total, { counts }) => total + counts[what], 0);
  return { snapshots: sum("snapshots"), deltas: sum("deltas"), bytes: sum("bytes") };
}

const lessThan = (after: Sent, before: Sent): Sent => ({
  snapshots: after.snapshots - before.snapshots,
  deltas: after.deltas - before.deltas,
  bytes: after.bytes - before.bytes,
});

/** A control plane was killed, and all its gateways came to the other one. */
interface Move {
  readonly edits: number;
  readonly tookMs: number;
  readonly received: Sent;
  readonly sent: Sent;
}

const everyoneElsewhere: Fault = {
  number: 20,
  name: "200 gateways come to the other control plane at once",
  async run(stack) {
    const planes = await TwoPlanes.start(stack, "PostgreSQL");
    const [one, other] = planes.both.map(({ plane }) => plane) as [Plane, Plane];
    const name = (i: number) => `of-many-${i}`;
    const put = async (plane: Plane, i: number, quota: number) => {
      const limits = [{ algorithm: "fixed-window", quota, window: "1m" }];
      const document = { match: { paths: [`/${name(i)}`] }, limits };
      const { status, body } = await plane.call("PUT", `/apps/default/policies/${name(i)}`, document);
      if (status > 201) throw new Error(`the policy was not put: ${status} ${JSON.stringify(body)}`);
    };
    const putting = Array.from({ length: putsAtOnce }, async (_, first) => {
      for (let i = first; i < policies; i += putsAtOnce) await put(one, i, 1);
    });
    await Promise.all(putting);
    const fleet = fleetAt(one);
    stack.defer(() => {
      for (const gateway of fleet) gateway.hangUp();
    });
    const moves: Move[] = [];
    let wholeBytes = 0;
    let differing = 0;
    return observe(stack, {
      system: planes,
      decides: "counter",
      sharers: { least: planes.gateways.length, most: planes.gateways.length + simulated },
      async inject() {
        await Promise.all(fleet.map((gateway) => gateway.connect()));
        await untilAllHave(fleet, one);
        wholeBytes = receivedBy(fleet).bytes;
        // At first there is something new when they come, and afterwards nothing.
        for (const [killed, next, edits] of [
          [one, other, editsMeanwhile],
          [other, one, 0],
        ] as const) {
          const sent = await sentBy(next);
          await killed.kill();
          await Promise.all(fleet.map((gateway) => gateway.closed()));
          for (let i = 0; i < edits; i++) await put(next, i, 2);
          const received = receivedBy(fleet);
          const cameMs = performance.now();
          await Promise.all(fleet.map((gateway) => gateway.connect(next.url)));
          await untilAllHave(fleet, next);
          const tookMs = performance.now() - cameMs;
          // Who has everything is sent nothing: anything that is on its way would come now.
          await sleep(500);
          await until("the real ones have it", async () => {
            const { gateways, revision } = (await next.call("GET", "/gateways?limit=1000")).body;
            const here = gateways.filter(({ connected }: { connected: boolean }) => connected);
            return (
              here.length === simulated + planes.gateways.length &&
              here.every((gateway: { revision: number }) => gateway.revision === revision)
            );
          });
          const move = { received: lessThan(receivedBy(fleet), received), sent: lessThan(await sentBy(next), sent) };
          moves.push({ edits, tookMs, ...move });
          await killed.start();
        }
        differing = await differingFrom(fleet, one);
        for (const gateway of fleet) gateway.hangUp();
        return undefined;
      },
      moreFacts: () => [
        ...moves.flatMap(({ edits, tookMs, received, sent }) => {
          const when = edits === 0 ? "no edit" : `${edits} edits`;
          const expected = edits === 0 ? 0 : simulated;
          // An edit is a line, and around the lists there is about twice as much.
          const bytesOf = (gateways: number) => gateways * (edits * 250 + 500);
          const mostBytes = bytesOf(expected);
          // The real ones may get each edit by itself.
          const mostOfAll = mostBytes + edits * bytesOf(planes.gateways.length);
          return [
            atMost(`${when}: until the ${simulated} are back with all they lack`, 5_000, tookMs, " ms"),
            fact(`${when}: deltas that they got`, `${expected}`, `${received.deltas}`, received.deltas === expected),
            atMost(`${when}: snapshots that they got`, 0, received.snapshots),
            atMost(`${when}: bytes that they got (snapshots: ${wholeBytes})`, mostBytes, received.bytes),
            atMost(`${when}: snapshots sent, to the real ones too`, 0, sent.snapshots),
            atMost(`${when}: bytes sent, to the real ones too`, mostOfAll, sent.bytes),
          ];
        }),
        atMost("gateways whose policies are not the stored ones afterwards", 0, differing),
      ],
    });
  },
};

function fleetAt({ url }: Plane): SimulatedGateway[] {
  return Array.from(
    { length: simulated },
    (_, i) => new SimulatedGateway({ url, token: gatewayToken, id: `simulated-${i}`, protocol: 2, keepsState: true }),
  );
}

async function untilAllHave(fleet: readonly SimulatedGateway[], plane: Plane): Promise<void> {
  const { revision } = (await plane.call("GET", "/gateways")).body;
  await until("every simulated gateway has the last revision", () =>
    fleet.every((gateway) => gateway.isConnected && gateway.held.revision === revision),
  );
}

/** @returns how many have other policies than the control plane lists */
async function differingFrom(fleet: readonly SimulatedGateway[], plane: Plane): Promise<number> {
  const { body } = await plane.call("GET", "/apps/default/policies?limit=1000");
  const stored = new Map<string, object>(
    body.policies.map(({ name, document }: { name: string; document: object }) => [
      `policy default ${name}`,
      { app: "default", document },
    ]),
  );
  return fleet.filter(({ entries }) => {
    const isSame = ([key, text]: readonly [string, string]) => isDeepStrictEqual(JSON.parse(text), stored.get(key));
    return entries.size !== stored.size || ![...entries].every(isSame);
  }).length;
}

export const faults = [hotKey, everyone, everyoneElsewhere];
