// Redis cannot be reached, or not in time.

import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { Program } from "../fixtures/servers/program.ts";
import type { Fault } from "./fault.ts";
import { Namespace } from "./namespace.ts";
import { deadlineMs, observe, startBehindProxy, startSystem } from "./scenario.ts";

const lastsMs = 3000;
const recoversWithinMs = 2000;

const refused: Fault = {
  number: 1,
  name: "Redis refused",
  async run(stack) {
    const { proxy, system } = await startBehindProxy(stack);
    return observe(stack, {
      system,
      decides: "shares",
      recoversWithinMs,
      async inject() {
        await proxy.refuse();
        await sleep(lastsMs);
        await proxy.accept();
        return undefined;
      },
    });
  },
};

const blackHoled: Fault = {
  number: 2,
  name: "Redis black-holed",
  needsRoot: true,
  async run(stack) {
    const namespace = Namespace.create();
    stack.defer(() => namespace.remove());
    const port = await freePort();
    const [command, ...args] = [...namespace.command, "redis-server", "--port", `${port}`] as string[];
    const redis = await Program.start({
      command: command as string,
      args: [...args, "--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""],
      readyWhen: /Ready to accept connections/,
    });
    stack.defer(() => redis.stop("SIGKILL"));
    const system = await startSystem(stack, {
      gateways: 2,
      env: { SLUICE_REDIS_URL: `redis://${namespace.address}:${port}` },
    });
    return observe(stack, {
      system,
      decides: "shares",
      recoversWithinMs,
      async inject() {
        await namespace.drop(port);
        await sleep(lastsMs);
        await namespace.pass();
        return undefined;
      },
    });
  },
};

/** A slow Redis is not unreachable: it decides as long as it answers within the deadline. */
const late = (addedMs: number): Fault => ({
  number: 3,
  name: `Redis +${addedMs} ms`,
  async run(stack) {
    const { proxy, system } = await startBehindProxy(stack);
    const isAway = addedMs > deadlineMs;
    return observe(stack, {
      system,
      decides: isAway ? "shares" : "counter",
      // Up to four round trips are under way at a time: a request may wait for one of them, and then for its own.
      ...(isAway ? { recoversWithinMs } : { mostAddedMs: 2 * addedMs }),
      async inject() {
        proxy.delayMs = addedMs / 2;
        await sleep(lastsMs);
        proxy.delayMs = 0;
        return undefined;
      },
    });
  },
});

/** The same delay as the first of these, but the operator has said that Redis is then overloaded. */
const overloaded: Fault = {
  number: 3,
  name: `Redis +${deadlineMs * 0.75} ms, overload from 50 ms on`,
  async run(stack) {
    const { proxy, system } = await startBehindProxy(stack, { SLUICE_OVERLOAD_REDIS_P99_MS: "50" });
    return observe(stack, {
      system,
      decides: "shares",
      // Before it is an overload, requests wait for Redis.
      mostAddedMs: 1.5 * deadlineMs,
      // By then Redis decides a probe; all else five seconds later (test/e2e/measured/overload.test.ts).
      recoversWithinMs,
      async inject() {
        proxy.delayMs = (deadlineMs * 0.75) / 2;
        await sleep(2 * lastsMs);
        proxy.delayMs = 0;
        return undefined;
      },
    });
  },
};

export const faults = [refused, blackHoled, late(deadlineMs * 0.75), late(deadlineMs * 1.5), overloaded];
