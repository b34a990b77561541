// Redis forks under load: a BGSAVE of a Redis with two gigabytes blocks it for as long as copying its page tables takes, and
// then writes to the disk meanwhile. Two gateways are offered more than a limit allows all the while.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Load } from "../fixtures/clients/load.ts";
import { mostAtOnce } from "../fixtures/measures/bound.ts";
import { atLeast, atMost, type Fact } from "../fixtures/measures/fact.ts";
import { countsOf } from "../fixtures/measures/gateway-counts.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { System } from "../fixtures/servers/system.ts";
import { untilWithin } from "../fixtures/until.ts";
import { type Account, runOf } from "./account.ts";
import { environment, workers } from "./crowds.ts";
import { bgsaveName } from "./scenarios.ts";

const perSecond = 200;
const burst = 50;
/** Requests a second, at both gateways together. */
const offeredPerSecond = 800;
/** Each key has a thousand bytes; with what Redis needs in addition they are two gigabytes. */
const keys = 2_000_000;
const leastBytes = 2_000_000_000;
const saveWithinMs = 120_000;
const mostOutstanding = 400;

/** @param saves how many BGSAVEs run, one after the other */
export async function playBgsave(
  saves: number,
  reported: (line: string) => void,
  stopped: () => boolean,
): Promise<Account> {
  await using stack = new AsyncDisposableStack();
  const directory = mkdtempSync(join(tmpdir(), "sluice-bgsave-"));
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  const redis = new RedisServer(await freePort(), {}, ["--dir", directory, "--enable-debug-command", "local"]);
  await redis.start();
  stack.defer(() => redis.stop("SIGKILL"));
  await redis.command("DEBUG", "POPULATE", `${keys}`, "filling", "1000");
  const used = Number(/^used_memory:(\d+)/m.exec(String(await redis.command("INFO", "memory")))?.[1]);
  reported(`Redis holds ${(used / 1e9).toFixed(1)} GB`);

  const system = await System.start({ gateways: 2, workers, env: { ...environment, SLUICE_REDIS_URL: redis.url } });
  stack.defer(() => system.stop());
  await system.put({
    name: bgsaveName,
    scope: "cluster",
    match: { paths: [`/${bgsaveName}`] },
    limits: [{ algorithm: "token-bucket", quota: perSecond, window: "1s", burst }],
  });
  const load = new Load(
    system.gateways.map(({ url }) => `${url}/${bgsaveName}`),
    offeredPerSecond,
    ["none"],
  );
  load.mostOutstanding = mostOutstanding;
  load.start();
  stack.defer(() => load.stop());
  await sleep(1000);
  let saved = 0;
  const forksMs: number[] = [];
  while (saved < saves && !stopped()) {
    await redis.command("BGSAVE");
    await untilWithin("Redis has saved", saveWithinMs, async () =>
      /rdb_bgsave_in_progress:0/.test(String(await redis.command("INFO", "persistence"))),
    );
    const info = `${await redis.command("INFO", "stats")}${await redis.command("INFO", "persistence")}`;
    if (/rdb_last_bgsave_status:ok/.test(info)) saved += 1;
    forksMs.push(Number(/latest_fork_usec:(\d+)/.exec(info)?.[1]) / 1000);
    reported(`BGSAVE ${saved} of ${saves}: the fork took ${forksMs.at(-1)?.toFixed(0)} ms`);
    await sleep(1000);
  }
  await load.stop();
  // Workers report their counts now and then.
  await sleep(500);

  const counts = await countsOf(system.gateways, bgsaveName);
  const answers = load.served.map(({ status, sentAtMs, answeredAtMs }) => ({
    status,
    tookMs: answeredAtMs - sentAtMs,
  }));
  const run = runOf(answers, counts);
  const most = mostAtOnce(
    load.served.filter(({ status }) => status === 200),
    perSecond,
  );
  const first = load.served[0]?.sentAtMs ?? 0;
  const seconds = ((load.served.at(-1)?.answeredAtMs ?? 0) - first) / 1000;
  const facts: Fact[] = [
    atLeast("bytes that Redis holds", leastBytes, used),
    atLeast("saved", saves, saved),
    atLeast("offered, times the limit", 2, load.served.length / seconds / perSecond),
    atMost(`most in any interval t beyond ${perSecond}/s · t`, burst, most),
    atMost("answers other than 200 and 429", 0, run.others),
    atMost("decided without Redis", 0, counts.withoutRedis),
  ];
  const what =
    `${offeredPerSecond}/s, 2 gateways, exact token-bucket ${perSecond}/s burst ${burst}, ` +
    `BGSAVE of ${(used / 1e9).toFixed(1)} GB ${saved} times, forks of ${forksMs.map((ms) => ms.toFixed(0)).join(", ")} ms`;
  return { name: bgsaveName, what, runs: [run], excess: Math.max(0, most - burst), facts };
}
