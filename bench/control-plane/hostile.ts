// Measures what gateways notice of two others that behave badly: one reads nothing from its socket, one sends whatever does harm.
// Rounds with both and without them alternate.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { say } from "../../launch/step.mjs";
import { SimulatedGateway } from "../../test/fixtures/clients/simulated-gateway.ts";
import { cpuUs } from "../cpu-time.ts";
import { median } from "../statistics.ts";
import { Crowd } from "./crowd.ts";
import { monotonicMs } from "./crowd-process.ts";
import { type Durations, durationsOf, nextEdit } from "./edits.ts";
import { edited } from "./fill.ts";
import type { HostileOrder } from "./hostile-process.ts";
import { gatewayToken, type Site } from "./site.ts";
import { type Bench, siteWith } from "./surroundings.ts";

const gateways = 200;
const editsInRound = 20;
const settleMs = 2_000;
const againAfterMs = 500;

export interface Round {
  /** From the PUT to the acknowledgement of each of the others, for all edits of the round. */
  readonly others: Durations;
  readonly controlPlaneCpuMs: number;
  readonly controlPlaneMB: number;
}

/** Medians of the rounds. */
export interface Side {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly mostMs: number;
  readonly controlPlaneCpuMs: number;
  readonly controlPlaneMB: number;
  readonly rounds: readonly Round[];
}

export interface Hostile {
  readonly policies: number;
  readonly gateways: number;
  readonly without: Side;
  readonly with: Side;
  /** How often the control plane has closed the socket of one of the others. */
  readonly cuts: number;
}

export async function hostile(bench: Bench): Promise<Hostile> {
  const [policies = 1_000] = bench.options.fleetPolicies;
  const site = await siteWith(bench, policies);
  const { protocol, rounds } = bench.options;
  const crowd = await Crowd.start({ url: site.url, token: gatewayToken, protocol, name: "other", count: gateways - 2 });
  const taken = { without: [] as Round[], with: [] as Round[] };
  let cuts = 0;
  for (let i = 0; i < rounds; i++) {
    // Which comes first changes too.
    for (const side of i % 2 === 0 ? (["without", "with"] as const) : (["with", "without"] as const)) {
      const leave = side === "with" ? await joinBadly(site, protocol) : async () => undefined;
      await sleep(settleMs);
      const { round, cuts: seen } = await play(site, crowd);
      taken[side].push(round);
      cuts = seen;
      await leave();
      await sleep(settleMs);
      say(`hostile: round ${i + 1} of ${rounds}, ${side} them: p99 ${round.others.p99Ms.toFixed(1)} ms`);
    }
  }
  await crowd.stop();
  await site.stop();
  return { policies, gateways, without: sideOf(taken.without), with: sideOf(taken.with), cuts };
}

async function play(site: Site, crowd: Crowd): Promise<{ round: Round; cuts: number }> {
  const times: number[] = [];
  const cpuBefore = cpuUs([site.pid]);
  let cuts = 0;
  for (let i = 0; i < editsInRound; i++) {
    const sentAtMs = monotonicMs();
    const { revision } = await site.put(edited, nextEdit().document);
    const reached = await crowd.untilAll(revision);
    for (const ms of reached.timesMs) times.push(ms - sentAtMs);
    cuts = reached.cuts;
    await sleep(20 + Math.random() * 20);
  }
  const controlPlaneCpuMs = (cpuUs([site.pid]) - cpuBefore) / 1000 / editsInRound;
  return { round: { others: durationsOf(times), controlPlaneCpuMs, controlPlaneMB: site.memory().residentMB }, cuts };
}

/** Connects the slow gateway and the hostile one. @returns what makes them go */
async function joinBadly(site: Site, protocol: 1 | 2): Promise<() => Promise<void>> {
  let isOver = false;
  const slow = new SimulatedGateway({ url: site.url, token: gatewayToken, protocol, id: "slow" });
  const slowly = (async () => {
    while (!isOver) {
      // The control plane may be too busy to take it: then it comes again.
      await slow.connect().then(
        () => slow.stopReading(),
        () => undefined,
      );
      while (!isOver && slow.isConnected) await sleep(againAfterMs);
    }
  })();
  const child: ChildProcess = fork(join(import.meta.dirname, "hostile-process.ts"));
  child.send({ url: site.url, token: gatewayToken } satisfies HostileOrder);
  return async () => {
    isOver = true;
    const ended = once(child, "exit");
    child.disconnect();
    await ended;
    await slowly;
    slow.hangUp();
  };
}

function sideOf(rounds: readonly Round[]): Side {
  const middle = (pick: (round: Round) => number) => median(rounds.map(pick));
  return {
    p50Ms: middle(({ others }) => others.p50Ms),
    p99Ms: middle(({ others }) => others.p99Ms),
    mostMs: middle(({ others }) => others.mostMs),
    controlPlaneCpuMs: middle(({ controlPlaneCpuMs }) => controlPlaneCpuMs),
    controlPlaneMB: middle(({ controlPlaneMB }) => controlPlaneMB),
    rounds,
  };
}
