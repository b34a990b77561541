// One run of the fuzzers: the targets of one worker play in turns, a round each, until the time is up. Meanwhile samples of
// what every process holds are taken. Findings and the growth of memory become facts.

import { setTimeout as sleep } from "node:timers/promises";
import { atMost, type Fact, fact } from "../fixtures/measures/fact.ts";
import { System } from "../fixtures/servers/system.ts";
import { flatMemory, quartersOf } from "../soak/expectations.ts";
import { Looking, type Possessions } from "../soak/possessions.ts";
import { ControlPlaneWatch, mostStallMs } from "./control-plane-watch.ts";
import { framesToControlPlane } from "./frames-to-control-plane.ts";
import { framesToGateway } from "./frames-to-gateway.ts";
import type { GatewayWatch } from "./gateway-watch.ts";
import { heads } from "./heads.ts";
import { rest } from "./rest.ts";
import { restAlone } from "./rest-alone.ts";
import { type Finding, playRound } from "./round.ts";
import { snapshotLoad } from "./snapshot-load.ts";
import { snapshotsOnDisk } from "./snapshots-on-disk.ts";
import type { Fuzzer, Target } from "./target.ts";
import { texts } from "./texts.ts";

export const targets: readonly Target[] = [
  rest,
  restAlone,
  texts,
  framesToControlPlane,
  framesToGateway,
  heads,
  snapshotsOnDisk,
  snapshotLoad,
];

export interface Options {
  readonly seconds: number;
  /** One seed is that of the first round; each later round has the next one. Of several seeds, each has one round of equal time. */
  readonly seeds: readonly [number, ...number[]];
  readonly only: readonly string[];
  /** Ends the run early, in order. */
  readonly signal: AbortSignal;
  /** Called with a line of progress now and then. */
  say(this: void, line: string): void;
}

export interface Played {
  readonly target: string;
  rounds: number;
  inputs: number;
}

export interface Result {
  readonly date: string;
  readonly seeds: readonly number[];
  readonly seconds: number;
  readonly played: readonly Played[];
  readonly findings: readonly Finding[];
  readonly facts: readonly Fact[];
  readonly samples: readonly Sample[];
}

interface Started {
  readonly target: Target;
  readonly fuzzer: Fuzzer<unknown>;
}

interface Sample {
  readonly atMs: number;
  readonly roles: Possessions;
}

/** The longest time of a round; a finding is made small after it. */
const roundMs = 4_000;
/** A target with this number of findings is not played again. */
const mostFindings = 5;
const sampleEveryMs = 1_000;
const sayEveryMs = 30_000;
/** In shorter runs, caches are still being filled when memory is first measured. */
const assessesMemoryFromSeconds = 240;
/** LuaJIT and V8 take what is left of the machine, and return it when they like. */
const mayGrow = { percent: 10, kb: 8 * 1024 };

export async function fuzz(options: Options): Promise<Result> {
  const stack = new AsyncDisposableStack();
  try {
    return await new Run(options, stack).play();
  } finally {
    await stack.disposeAsync();
  }
}

class Run {
  readonly #options: Options;
  readonly #stack: AsyncDisposableStack;
  readonly #gateways: GatewayWatch[] = [];
  readonly #played = new Map<string, Played>();
  readonly #findings: Finding[] = [];
  readonly #samples: Sample[] = [];
  #controlPlane: Promise<ControlPlaneWatch> | undefined;
  #beganMs = 0;

  constructor(options: Options, stack: AsyncDisposableStack) {
    this.#options = options;
    this.#stack = stack;
  }

  async play(): Promise<Result> {
    const { seconds, seeds, only, signal, say } = this.#options;
    const chosen = targets.filter(({ name }) => only.length === 0 || only.includes(name));
    const started = await this.#start(chosen);
    const looking = new Looking();
    this.#stack.defer(() => looking.stop());
    this.#beganMs = performance.now();
    const over = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)]);
    const workers = Map.groupBy(started, ({ target }) => target.worker);
    const beside = new AbortController();
    const background = Promise.all([
      regularly(sampleEveryMs, beside.signal, () => this.#sample(looking)),
      regularly(sayEveryMs, beside.signal, async () => say(this.#progress())),
    ]);
    try {
      await Promise.all([...workers.values()].map((worker) => this.#playInTurns(worker, over)));
    } finally {
      beside.abort();
      await background;
    }
    return {
      date: new Date().toISOString(),
      seeds,
      seconds,
      played: [...this.#played.values()],
      findings: this.#findings,
      facts: [
        ...this.#findingFacts(),
        ...started.flatMap(({ fuzzer }) => fuzzer.facts?.() ?? []),
        ...(await this.#controlPlaneFacts()),
        ...this.#memoryFacts(),
      ],
      samples: this.#samples,
    };
  }

  async #start(chosen: readonly Target[]): Promise<Started[]> {
    const started: Started[] = [];
    for (const target of chosen) {
      const surroundings = {
        stack: this.#stack,
        controlPlane: () => this.#startControlPlane(),
        watch: (gateway: GatewayWatch) => void this.#gateways.push(gateway),
      };
      started.push({ target, fuzzer: await target.start(surroundings) });
      this.#played.set(target.name, { target: target.name, rounds: 0, inputs: 0 });
    }
    return started;
  }

  #startControlPlane(): Promise<ControlPlaneWatch> {
    this.#controlPlane ??= System.start({ gateways: 1, redis: true }).then((system) => {
      const watch = new ControlPlaneWatch(system);
      this.#gateways.push(watch.gateway);
      this.#stack.defer(async () => {
        watch.close();
        await system.stop();
      });
      return watch;
    });
    return this.#controlPlane;
  }

  /** Every round of every target has a seed of its own, and can be the first of another run. */
  async #playInTurns(worker: readonly Started[], over: AbortSignal): Promise<void> {
    const { seeds, seconds, signal } = this.#options;
    // If rounds are counted, each is played, however late it is: a busy machine skips none.
    const ended = seeds.length === 1 ? over : signal;
    const partMs = (seconds * 1000) / worker.length / seeds.length;
    for (let round = 0; !ended.aborted && (seeds.length === 1 || round < seeds.length); round++) {
      const seed = seeds[round] ?? seeds[0] + round;
      const playing = worker.filter(({ target }) => !this.#hasReportedEnough(target));
      if (playing.length === 0) return;
      for (const { target, fuzzer } of playing) {
        if (!ended.aborted) await this.#playOne(target, fuzzer, seed, Math.min(roundMs, partMs));
      }
    }
  }

  #hasReportedEnough({ name }: Target): boolean {
    return this.#findings.filter(({ target }) => target === name).length >= mostFindings;
  }

  async #playOne(target: Target, fuzzer: Fuzzer<unknown>, seed: number, timeMs: number): Promise<void> {
    const { inputs, finding } = await playRound(target.name, fuzzer, seed, timeMs);
    const played = this.#played.get(target.name) as Played;
    played.rounds += 1;
    played.inputs += inputs;
    if (finding === undefined) return;
    this.#findings.push(finding);
    this.#options.say(`FOUND by ${target.name}: ${finding.what}\n  --only ${target.name} --seed ${finding.seed}`);
  }

  async #sample(looking: Looking): Promise<void> {
    const controlPlane =
      this.#controlPlane === undefined ? undefined : (await this.#controlPlane).system.controlPlanePid;
    try {
      const roles = await looking.at({ gateways: this.#gateways.map(({ directory }) => directory), controlPlane });
      this.#samples.push({ atMs: Math.round(performance.now() - this.#beganMs), roles });
    } catch {
      // One of the processes is being restarted.
    }
  }

  /** @returns the role, with the gateway's own name in place of `gateway N` */
  #nameOf(role: string): string {
    return role.replace(/^gateway (\d+)/, (_, n) => this.#gateways[Number(n) - 1]?.name ?? role);
  }

  #progress(): string {
    const seconds = Math.round((performance.now() - this.#beganMs) / 1000);
    const counts = [...this.#played.values()].map(({ target, inputs }) => `${target} ${inputs}`).join(", ");
    const memory = Object.entries(this.#samples.at(-1)?.roles ?? {}).map(
      ([role, { memoryKb }]) => `${this.#nameOf(role)} ${Math.round(memoryKb / 1024)}`,
    );
    return `${seconds} s; inputs: ${counts}; found: ${this.#findings.length}; MB: ${memory.join(", ")}`;
  }

  #findingFacts(): Fact[] {
    return [...this.#played.values()].map(({ target, inputs, rounds }) => {
      const found = this.#findings.filter((one) => one.target === target).length;
      const seen = `${found} in ${inputs} inputs, ${rounds} rounds`;
      return fact(`${target}: inputs that show a fault`, "0", seen, found === 0 && inputs > 0);
    });
  }

  async #controlPlaneFacts(): Promise<Fact[]> {
    if (this.#controlPlane === undefined) return [];
    const watch = await this.#controlPlane;
    return [
      atMost("5xx, as the control plane counts them", 0, await watch.serverErrors()),
      atMost("the longest that one input held up the event loop, alone", mostStallMs, Math.round(watch.worstMs), " ms"),
    ];
  }

  #memoryFacts(): Fact[] {
    const { seconds } = this.#options;
    if (seconds < assessesMemoryFromSeconds) return [];
    const roles = [...new Set(this.#samples.flatMap((sample) => Object.keys(sample.roles)))];
    return roles.map((role) => {
      const held = this.#samples.flatMap((sample) => sample.roles[role] ?? []);
      return flatMemory(
        `memory of ${this.#nameOf(role)}, the last quarter's by the third's`,
        quartersOf(held, 2, ({ memoryKb }) => memoryKb),
        mayGrow,
      );
    });
  }
}

async function regularly(everyMs: number, ends: AbortSignal, what: () => Promise<void>): Promise<void> {
  while (!ends.aborted) {
    await sleep(everyMs, undefined, { signal: ends }).catch(() => undefined);
    if (!ends.aborted) await what();
  }
}
