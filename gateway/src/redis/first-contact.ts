// Asks Redis once when nginx starts: a wrong password, name or database is in the log before the first request comes, and
// not after it. Nothing waits for the answer, and nothing follows from it.

import { runSoon } from "../runtime/background.ts";
import type { RedisSettings } from "../settings.ts";
import { connectTo, probe } from "./connection.ts";
import { serverFor } from "./script-call.ts";

/** Nobody waits, and a machine that starts is busy. */
const patienceMs = 1000;

/** For each worker's start: one of them asks. */
export function contactRedisAtStart(settings: RedisSettings): void {
  if (ngx.worker.id() !== 0) return;
  runSoon(() => {
    const [asked, failure] = pcall(ask, { ...settings, deadlineMs: patienceMs });
    if (asked && failure === undefined) return;
    ngx.log(ngx.ERR, "sluice: Redis did not answer at the start: ", failure);
  });
}

/** @returns what failed */
function ask(settings: RedisSettings): string | undefined {
  const [server, unknown] = serverFor(settings, 0);
  if (server === undefined) return unknown ?? "no server";
  const [redis, failure] = connectTo(server, settings.deadlineMs);
  if (redis === undefined) return failure ?? "no connection";
  const [fit, refusal] = probe(redis);
  return fit === true ? undefined : (refusal ?? "no reply");
}
