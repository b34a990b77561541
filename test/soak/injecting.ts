// Makes each fault of the schedule, and ends it when its time is over.

import { setTimeout as sleep } from "node:timers/promises";
import type { Load } from "../fixtures/clients/load.ts";
import { type Gateway, nginxProcesses, type System } from "../fixtures/servers/system.ts";
import type { Fleet } from "./fleet.ts";
import type { FaultName } from "./schedule.ts";
import { editedPolicy } from "./traffic.ts";

/** Counters may have been forgotten, once, between these moments. */
export interface Forgetting {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface Injection {
  readonly fleet: Fleet;
  readonly loads: readonly Load[];
  /** Collects what Redis forgot. */
  readonly forgotten: Forgetting[];
  /** Counts the workers that were killed. */
  readonly count: { workersKilled: number };
  readonly lastsMs: number;
}

export type Inject = (injection: Injection) => Promise<void>;

/** Workers of the first gateway are killed and reloaded; those of the second live as long as the run, and show leaks. */
export const restartedGateway = 0;

const restarted = (system: System) => system.gateways[restartedGateway] as Gateway;

const usuallyEveryMs = 300;
/** This is longer than a request lasts, so that the second try of a request whose worker was killed is not killed too. */
const everyKillMs = 2500;

export const injects: Readonly<Record<FaultName, Inject>> = {
  async refused({ fleet: { proxy }, lastsMs }) {
    await proxy.refuse();
    await sleep(lastsMs);
    await proxy.accept();
  },
  async "black-holed"({ fleet: { namespaces, proxy }, lastsMs }) {
    await Promise.all(namespaces.map((namespace) => namespace.drop(proxy.port)));
    await sleep(lastsMs);
    await Promise.all(namespaces.map((namespace) => namespace.pass()));
  },
  async late({ fleet: { proxy }, lastsMs }) {
    proxy.delayMs = 100;
    await sleep(lastsMs);
    proxy.delayMs = 0;
  },
  async "replies lost"({ fleet: { proxy }, lastsMs }) {
    let replies = 0;
    proxy.losesReply = () => ++replies % 10 === 0;
    await sleep(lastsMs);
    proxy.losesReply = () => false;
  },
  async "SCRIPT FLUSH"({ fleet: { redis }, lastsMs }) {
    await repeatedly(usuallyEveryMs, lastsMs, async () => {
      await redis.command("SCRIPT", "FLUSH");
    });
  },
  async FLUSHALL({ fleet: { redis }, forgotten, lastsMs }) {
    const fromMs = performance.now();
    await redis.command("FLUSHALL");
    forgotten.push({ fromMs, toMs: performance.now() });
    await sleep(lastsMs);
  },
  // The primary of this replica does not exist.
  READONLY: ({ fleet: { redis }, lastsMs }) =>
    configured(lastsMs, (...to) => redis.command("REPLICAOF", ...to), ["127.0.0.1", "1"], ["NO", "ONE"]),
  OOM: ({ fleet: { redis }, lastsMs }) =>
    configured(lastsMs, (to) => redis.command("CONFIG", "SET", "maxmemory", to as string), ["1"], ["0"]),
  /** Lasts as long as reading the saved keys takes. */
  async LOADING({ fleet: { redis }, forgotten }) {
    await redis.command("EVAL", "for i = 1, 12000 do redis.call('SET', 'filler:' .. i, i) end", "0");
    const fromMs = performance.now();
    await redis.command("SAVE");
    await redis.stop("SIGKILL");
    await redis.start();
    forgotten.push({ fromMs, toMs: performance.now() });
    await redis.command("EVAL", "for i = 1, 12000 do redis.call('DEL', 'filler:' .. i) end", "0");
  },
  async "worker killed"({ fleet: { system }, count, lastsMs }) {
    await repeatedly(everyKillMs, lastsMs, async () => {
      const { workers } = nginxProcesses(restarted(system));
      const worker = workers[count.workersKilled++ % workers.length];
      if (worker !== undefined) process.kill(worker, "SIGKILL");
    });
  },
  async "nginx reloaded"({ fleet: { system }, lastsMs }) {
    process.kill(nginxProcesses(restarted(system)).master, "SIGHUP");
    await sleep(lastsMs);
  },
  async "control plane restarted"({ fleet: { system }, lastsMs }) {
    await system.killControlPlane();
    await sleep(lastsMs / 2);
    await system.startControlPlane();
  },
  async "one gateway cut off"({ fleet: { namespaces, proxy, system }, lastsMs }) {
    const [namespace] = namespaces;
    await namespace?.drop(proxy.port, Number(new URL(system.controlUrl).port));
    await sleep(lastsMs);
    await namespace?.pass();
  },
  async "all reconnect"({ fleet: { proxy }, loads, lastsMs }) {
    await repeatedly(usuallyEveryMs, lastsMs, async () => {
      for (const load of loads) load.reconnect();
      proxy.hangUp();
    });
  },
  async "policies edited"({ fleet, lastsMs }) {
    let edits = 0;
    await repeatedly(usuallyEveryMs, lastsMs, async () => {
      const { name, ...document } = editedPolicy(edits++);
      // A control plane that restarts at this moment may not be there to take the change.
      await fleet.system.api("PUT", `/apps/default/policies/${name}`, document).catch(() => undefined);
    });
  },
};

/** Faults that drop packets. */
export const needRoot: readonly FaultName[] = ["black-holed", "one gateway cut off"];

async function repeatedly(everyMs: number, lastsMs: number, act: () => Promise<void>): Promise<void> {
  const untilMs = performance.now() + lastsMs;
  for (let leftMs = lastsMs; leftMs > 0; leftMs = untilMs - performance.now()) {
    await act();
    await sleep(Math.min(everyMs, leftMs));
  }
}

async function configured(
  lastsMs: number,
  set: (...to: string[]) => Promise<unknown>,
  begin: string[],
  end: string[],
): Promise<void> {
  await set(...begin);
  await sleep(lastsMs);
  await set(...end);
}
