// Workers of one nginx end under load, killed or by a reload; what they have counted together is kept.

import { setTimeout as sleep } from "node:timers/promises";
import { atLeast } from "../fixtures/measures/fact.ts";
import { nginxProcesses } from "../fixtures/servers/system.ts";
import type { Fault } from "./fault.ts";
import { observe, startSystem } from "./scenario.ts";

const lastsMs = 3000;

const workerKilled: Fault = {
  number: 12,
  name: "SIGKILL of workers that share a counter and its lock",
  async run(stack) {
    const system = await startSystem(stack, { workers: 2 });
    let killed = 0;
    return observe(stack, {
      system,
      scope: "node",
      decides: "counter",
      breaks: true,
      async inject() {
        const untilMs = performance.now() + lastsMs;
        while (performance.now() < untilMs) {
          const { workers } = nginxProcesses(system.gateway);
          process.kill(workers[killed % workers.length] as number, "SIGKILL");
          killed += 1;
          await sleep(200);
        }
        return undefined;
      },
      moreFacts: () => [atLeast("workers killed", 10, killed)],
    });
  },
};

const reloaded: Fault = {
  number: 13,
  name: "nginx reload under load",
  async run(stack) {
    const system = await startSystem(stack, { workers: 2 });
    return observe(stack, {
      system,
      scope: "node",
      decides: "counter",
      // A worker that ends closes connections that wait for a next request, and that request may be on its way.
      breaks: true,
      async inject() {
        for (let i = 0; i < 3; i++) {
          process.kill(nginxProcesses(system.gateway).master, "SIGHUP");
          await sleep(lastsMs / 3);
        }
        return undefined;
      },
    });
  },
};

export const faults = [workerKilled, reloaded];
