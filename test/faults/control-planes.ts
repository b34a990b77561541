// Control planes and their database go away. Gateways need neither to limit, and whatever was answered as stored is stored.

import { setTimeout as sleep } from "node:timers/promises";
import { atLeast, atMost, type Fact, fact } from "../fixtures/measures/fact.ts";
import type { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import type { Plane } from "../fixtures/servers/plane.ts";
import { until } from "../fixtures/until.ts";
import type { Fault, Observation } from "./fault.ts";
import { observe } from "./scenario.ts";
import { type DatabaseKind, TwoPlanes } from "./two-planes.ts";
import { type Put, Writers } from "./writers.ts";

/** docs/operations.md: a gateway is with the other control plane within this time. */
const movesWithinMs = 5_000;
/** docs/operations.md: if the database hangs, every request is answered within this time. */
const answersWithinMs = 25_000;
/** docs/operations.md: the database undoes a change whose control plane was lost after 30 s, and a change waits for 5 s. */
const undoneWithinMs = 35_000;
/** docs/operations.md: gateways of a control plane that the database has not heard of for 10 s do not count at the other one. */
const sharers = { least: 2, most: 4 };
const writersOfEach = 4;
/** They write for so long before the fault, and after it. */
const beforeMs = 2_000;
const afterMs = 1_500;

const bothDown: Fault = {
  number: 15,
  name: "both control planes down, gateways restarted",
  async run(stack) {
    const planes = await TwoPlanes.start(stack, "MariaDB");
    const { both, gateways } = planes;
    const last = { match: { paths: ["/last"] }, limits: [{ algorithm: "fixed-window", quota: 9, window: "366d" }] };
    let told: number[] = [];
    let connectedAfterMs = 0;
    return observe(stack, {
      system: planes,
      decides: "counter",
      // A restart of nginx closes connections that wait for a next request.
      breaks: true,
      async inject(load, beside) {
        // The last change before the end: a gateway has it on its disk at once.
        await planes.put({ name: "last", ...last });
        await Promise.all(both.map(({ plane }) => plane.kill()));
        await sleep(1_000);
        for (const restarted of [0, 2]) {
          const turns = gateways.flatMap((_, gateway) => (gateway === restarted ? [] : [gateway]));
          for (const each of [load, beside]) each.turns = turns;
          await sleep(300);
          await (gateways[restarted] as LoneGateway).restart();
          for (const each of [load, beside]) each.turns = gateways.map((_, gateway) => gateway);
        }
        await sleep(2_000);
        told = await planes.limitsAt("/last");
        await Promise.all(both.map(({ plane }) => plane.start()));
        const startedMs = performance.now();
        await planes.untilConnected();
        connectedAfterMs = performance.now() - startedMs;
        return undefined;
      },
      moreFacts: () => [
        fact(
          "limit of the last policy, told by all without a control plane, two from their disk",
          "9, 9, 9, 9",
          told.join(", "),
          told.every((limit) => limit === 9),
        ),
        atMost("until all gateways are back", movesWithinMs, connectedAfterMs, " ms"),
      ],
    });
  },
};

/** Asks a control plane to put a policy and to wait, and compares what it says with what the gateways do. */
class Waits {
  readonly #planes: TwoPlanes;
  #asked = 0;
  #untrue = 0;
  #last = "";
  #quota = 1_000;

  constructor(planes: TwoPlanes) {
    this.#planes = planes;
  }

  async ask(plane: Plane, wait = "2s"): Promise<void> {
    this.#quota += 1;
    const quota = this.#quota;
    const { status, body } = await plane.call("PUT", `/apps/default/policies/told?wait=${wait}`, {
      match: { paths: ["/told"] },
      limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
    });
    this.#asked += 1;
    if (status > 201) {
      this.#untrue += 1;
      return;
    }
    const { gateways, acked } = body.applied;
    const have = (await this.#planes.limitsAt("/told")).filter((limit) => limit >= quota).length;
    if (have < acked || gateways > this.#planes.gateways.length) this.#untrue += 1;
    this.#last = `${acked} of ${gateways}`;
  }

  facts(): Fact[] {
    const all = `${this.#planes.gateways.length} of ${this.#planes.gateways.length}`;
    return [
      atLeast("changes with ?wait at the other meanwhile", 2, this.#asked),
      atMost("of these, not answered, or answered that more had it than did", 0, this.#untrue),
      fact("gateways that the last one counted", all, this.#last, this.#last === all),
    ];
  }
}

const killedMidWrite = (kind: DatabaseKind): Fault => ({
  number: 15,
  name: `a control plane killed mid-write, then the other (${kind})`,
  async run(stack) {
    const planes = await TwoPlanes.start(stack, kind);
    const waits = new Waits(planes);
    const writers = new Writers();
    stack.defer(() => writers.stop());
    let movedAfterMs = 0;
    let underWay = 0;
    return observe(stack, {
      system: planes,
      decides: "counter",
      async inject() {
        const [one, other] = planes.both.map(({ plane }) => plane) as [Plane, Plane];
        for (const plane of [one, other]) writers.start(plane, writersOfEach);
        await sleep(beforeMs);
        for (const [killed, stays] of [
          [one, other],
          [other, one],
        ] as const) {
          await killed.kill();
          const killedMs = performance.now();
          const moved = until("all gateways are with the other", async () => {
            return (await stays.gatewaysHere()) === planes.gateways.length;
          }).then(() => performance.now() - killedMs);
          let isMoved = false;
          const watched = moved.finally(() => {
            isMoved = true;
          });
          while (!isMoved) await waits.ask(stays);
          movedAfterMs = Math.max(movedAfterMs, await watched);
          await waits.ask(stays);
          await killed.start();
          await until("both know of all", () => planes.knowOfAll());
          await sleep(500);
        }
        await writers.stop();
        underWay = writers.puts.filter(({ status }) => status === 0).length;
        await waits.ask(other, "10s");
        return undefined;
      },
      moreFacts: async () => [
        atLeast("changes under way at a kill, or sent to one that was not back yet", 2 * writersOfEach, underWay),
        atMost("until its gateways are with the other", movesWithinMs, movedAfterMs, " ms"),
        ...waits.facts(),
        ...(await writers.facts(planes)),
      ],
    });
  },
});

/** Facts about changes that control planes were asked for while none of them could reach the database. */
function refusedFacts(puts: readonly Put[]): Fact[] {
  const others = puts.filter(({ status }) => status !== 503).map(({ status, code }) => `${status} ${code ?? ""}`);
  const slowest = Math.max(0, ...puts.map(({ sentAtMs, answeredAtMs }) => answeredAtMs - sentAtMs));
  return [
    fact(
      `answers to ${puts.length} changes meanwhile`,
      "503",
      others.length === 0 ? "503" : [...new Set(others)].join(", "),
      puts.length > 0 && others.length === 0,
    ),
    atMost("the slowest of them", answersWithinMs, slowest, " ms"),
  ];
}

/** Waits until each of these control planes has stored a change that was sent after this moment. @returns how long it took */
async function untilStoring(writers: Writers, planes: readonly Plane[], fromMs: number): Promise<number> {
  const storedBy = (plane: Plane) =>
    writers.puts.find((put) => put.plane === plane && put.sentAtMs >= fromMs && put.revision !== undefined);
  await until("a change is stored again", () => planes.every((plane) => storedBy(plane) !== undefined));
  return Math.max(...planes.map((plane) => (storedBy(plane)?.answeredAtMs ?? 0) - fromMs));
}

interface Outage {
  readonly name: string;
  readonly kind: DatabaseKind;
  readonly needsRoot: boolean;
  readonly lastsMs: number;
  readonly goesOnWithinMs: number;
  begin(planes: TwoPlanes): Promise<void>;
  end(planes: TwoPlanes): Promise<void>;
}

const databaseGone = ({ name, kind, needsRoot, lastsMs, goesOnWithinMs, begin, end }: Outage): Fault => ({
  number: 15,
  name: `${name} (${kind})`,
  needsRoot,
  async run(stack): Promise<Observation> {
    const planes = await TwoPlanes.start(stack, kind, needsRoot);
    const all = planes.both.map(({ plane }) => plane);
    const writers = new Writers();
    stack.defer(() => writers.stop());
    let [fromMs, toMs, goneForMs] = [0, 0, 0];
    return observe(stack, {
      system: planes,
      decides: "counter",
      sharers,
      async inject() {
        for (const plane of all) writers.start(plane, writersOfEach);
        await sleep(beforeMs);
        await begin(planes);
        fromMs = performance.now();
        await sleep(lastsMs);
        toMs = performance.now();
        await end(planes);
        goneForMs = await untilStoring(writers, all, performance.now());
        await sleep(afterMs);
        await writers.stop();
        await until("both know of all", () => planes.knowOfAll());
        return undefined;
      },
      moreFacts: async () => [
        // What was sent before the end and answered afterwards may have been stored.
        ...refusedFacts(writers.between(fromMs, toMs)),
        atMost("until both store changes again", goesOnWithinMs, goneForMs, " ms"),
        fact("both control planes ran all the time", "yes", ...yesIf(all.every(({ isRunning }) => isRunning))),
        ...(await writers.facts(planes)),
      ],
    });
  },
});

const serverKilled = (kind: DatabaseKind) =>
  databaseGone({
    name: "the database server killed",
    kind,
    needsRoot: false,
    lastsMs: 3_000,
    goesOnWithinMs: 5_000,
    begin: ({ server }) => server.stop("SIGKILL"),
    end: ({ server }) => server.start(),
  });

const blackHoled = (kind: DatabaseKind) =>
  databaseGone({
    name: "the database black-holed",
    kind,
    needsRoot: true,
    // Longer than the longest wait for an answer, so that some are given meanwhile.
    lastsMs: 15_000,
    goesOnWithinMs: undoneWithinMs,
    begin: async ({ both }) => void (await Promise.all(both.map(({ cut }) => cut()))),
    end: async ({ both }) => void (await Promise.all(both.map(({ heal }) => heal()))),
  });

const partitioned = (kind: DatabaseKind): Fault => ({
  number: 15,
  name: `one control plane partitioned from the database (${kind})`,
  needsRoot: true,
  async run(stack) {
    const planes = await TwoPlanes.start(stack, kind, true);
    const [one, other] = planes.both.map(({ plane }) => plane) as [Plane, Plane];
    const writers = new Writers();
    stack.defer(() => writers.stop());
    let [fromMs, toMs, othersGoOnMs, goneForMs, stored] = [0, 0, 0, 0, 0];
    return observe(stack, {
      system: planes,
      decides: "counter",
      sharers,
      async inject() {
        for (const plane of [one, other]) writers.start(plane, writersOfEach);
        await sleep(beforeMs);
        await planes.both[0].cut();
        fromMs = performance.now();
        // A change of the one may be half done, and keep others waiting until the database undoes it.
        othersGoOnMs = await untilStoring(writers, [other], fromMs);
        await sleep(12_000);
        toMs = performance.now();
        stored = writers.between(fromMs, toMs).filter(({ revision }) => revision !== undefined).length;
        await planes.both[0].heal();
        goneForMs = await untilStoring(writers, [one], performance.now());
        await sleep(afterMs);
        await writers.stop();
        await until("both know of all", () => planes.knowOfAll());
        return undefined;
      },
      moreFacts: async () => [
        ...refusedFacts(writers.between(fromMs, toMs).filter(({ plane }) => plane === one)),
        atMost(
          "until the other stores changes (of the one, a half done change is undone)",
          undoneWithinMs,
          othersGoOnMs,
          " ms",
        ),
        atLeast("changes that the other stored meanwhile", 10, stored),
        atMost("until the one stores changes again", undoneWithinMs, goneForMs, " ms"),
        ...(await writers.facts(planes)),
      ],
    });
  },
});

function yesIf(so: boolean): [string, boolean] {
  return [so ? "yes" : "no", so];
}

export const faults = [
  bothDown,
  killedMidWrite("PostgreSQL"),
  killedMidWrite("MariaDB"),
  serverKilled("PostgreSQL"),
  serverKilled("MariaDB"),
  blackHoled("PostgreSQL"),
  blackHoled("MariaDB"),
  partitioned("PostgreSQL"),
  partitioned("MariaDB"),
];
