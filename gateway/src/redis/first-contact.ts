// Contacts Redis once when nginx starts, so that a wrong password, name or database is logged before the first request comes. No
// request waits for the reply, and nothing depends on it.

import { runSoon } from "../runtime/background.ts";
import type { RedisSettings } from "../settings.ts";
import { connectTo, probe } from "./connection.ts";
import { serverFor } from "./script-call.ts";

/** Long, because no request waits and a starting machine is busy. */
const patienceMs = 1000;

/** Called when a worker starts; only one worker contacts Redis. */
export function contactRedisAtStart(settings: RedisSettings): void {
  if (ngx.worker.id() !== 0) return;
  runSoon(() => {
    const failure = ask({ ...settings, deadlineMs: patienceMs });
    if (failure === undefined) return;
    ngx.log(ngx.ERR, "sluice: Redis did not answer at the start: ", failure);
  });
}

/** @returns the error message */
function ask(settings: RedisSettings): string | undefined {
  const [server, unknown] = serverFor(settings, 0);
  if (server === undefined) return unknown ?? "no server";
  const [redis, failure] = connectTo(server, settings.deadlineMs);
  if (redis === undefined) return failure ?? "no connection";
  const [fit, refusal] = probe(redis);
  return fit === true ? undefined : (refusal ?? "no reply");
}
