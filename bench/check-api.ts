// Measures the check API on a real nginx of one worker with a real Redis: one check and batches of 50 in scope node, and
// worked case 9, which is 1, 10 and 100 callers at once in scope cluster, with one gateway, two and four.
// `npm run bench:check-api` runs it.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { requireGatewayBuild } from "../launch/gateway-build.ts";
import { fail } from "../launch/step.mjs";
import { requireSystemPackages } from "../launch/system-packages.ts";
import { callerOf } from "../test/fixtures/clients/check-api-client.ts";
import { ask } from "../test/fixtures/clients/requests.ts";
import { freePort } from "../test/fixtures/servers/free-ports.ts";
import { LoneGateway } from "../test/fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../test/fixtures/servers/redis-server.ts";

interface Run {
  readonly name: string;
  /** With healthz, requests contain no check. */
  readonly policy: "node" | "cluster" | "healthz";
  readonly callers: number;
  /** The number of gateways among which the callers are divided; 1 by default. */
  readonly gateways?: number;
  readonly checks: number;
  /** The number of keys from which each check has a random one; 0: each request has the same keys, one for each check. */
  readonly keys: number;
  readonly target: string;
}

const runs: readonly Run[] = [
  { name: "nothing asked: /sluice/healthz", policy: "healthz", callers: 1, checks: 1, keys: 0, target: "" },
  { name: "node, one check", policy: "node", callers: 1, checks: 1, keys: 0, target: "p99 1 ms" },
  { name: "node, one check", policy: "node", callers: 8, checks: 1, keys: 0, target: "p99 1 ms" },
  { name: "node, one check, 100,000 keys", policy: "node", callers: 8, checks: 1, keys: 100_000, target: "p99 1 ms" },
  { name: "node, 50 checks", policy: "node", callers: 4, checks: 50, keys: 0, target: "25,000/s" },
  ...[1, 2, 4].flatMap((gateways): readonly Run[] =>
    (
      [
        [1, "250/s"],
        [10, "2,000/s"],
        [100, "5,000/s"],
      ] as const
    ).map(([callers, target]) => {
      const name = `cluster, case 9${gateways === 1 ? "" : `, ${gateways} gateways`}`;
      return { name, policy: "cluster", callers, gateways, checks: 1, keys: 0, target };
    }),
  ),
  { name: "cluster, 50 checks", policy: "cluster", callers: 4, checks: 50, keys: 0, target: "" },
];

const caller = { app: "default", token: "a-token-of-the-bench" };
const seconds = 4;
const rounds = 3;

await requireSystemPackages("test", process.env["SLUICE_NGINX"]).catch(fail);
await requireGatewayBuild().catch(fail);
const redis = new RedisServer(await freePort());
await redis.start();
const mostGateways = 4;
const gateways: LoneGateway[] = [];
const startGateway = () =>
  LoneGateway.start({
    policies: (["node", "cluster"] as const).map((scope) => ({
      name: scope,
      scope,
      match: { paths: ["/elsewhere"] },
      key: ["header:x-key"],
      limits: [{ algorithm: "token-bucket", quota: 10, window: "1m", burst: 100_000_000 }],
    })),
    callers: [callerOf(caller)],
    env: { SLUICE_REDIS_URL: redis.url },
  });
try {
  while (gateways.length < mostGateways) gateways.push(await startGateway());
  const wrk = promisify(execFile);
  const measureAt = async (url: string, { policy, callers, checks, keys }: Run, forSeconds: number) => {
    const script = join(import.meta.dirname, "check-api-wrk.lua");
    const args = ["-t1", `-c${callers}`, `-d${forSeconds}s`, "--latency", "-s", script, url, "--"];
    const { stdout } = await wrk("wrk", [...args, caller.token, policy, `${checks}`, `${keys}`]);
    const line = stdout.split("\n").find((text) => text.startsWith("{"));
    if (line === undefined) throw new Error(`wrk: expected a line of JSON, got ${stdout.slice(0, 500)}`);
    const load = JSON.parse(line);
    if (load.errors > 0) throw new Error(`${load.errors} of ${load.requests} requests failed`);
    return { perSecond: (load.requests * checks * 1e6) / load.durationUs, p50Us: load.p50Us, p99Us: load.p99Us };
  };
  // A single caller uses a single gateway. With several gateways, the worst latencies are reported.
  const measure = async (run: Run, forSeconds: number) => {
    const asked = gateways.slice(0, Math.min(run.gateways ?? 1, run.callers));
    const parts = await Promise.all(
      asked.map(({ privateUrl }, i) => {
        const callers = Math.floor((run.callers + i) / asked.length);
        return measureAt(privateUrl, { ...run, callers }, forSeconds);
      }),
    );
    return {
      perSecond: parts.reduce((sum, { perSecond }) => sum + perSecond, 0),
      p50Us: Math.max(...parts.map(({ p50Us }) => p50Us)),
      p99Us: Math.max(...parts.map(({ p99Us }) => p99Us)),
    };
  };
  const measured = runs.map(() => [] as Awaited<ReturnType<typeof measure>>[]);
  for (const run of runs) await measure(run, 1);
  for (let round = 0; round < rounds; round++) {
    for (const [i, run] of runs.entries()) measured[i]?.push(await measure(run, seconds));
  }
  const median = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;
  process.stdout.write(
    "| | callers | decisions/s | p50 µs | p99 µs | target |\n| --- | --- | --- | --- | --- | --- |\n",
  );
  for (const [i, { name, callers, target }] of runs.entries()) {
    const of = (figure: "perSecond" | "p50Us" | "p99Us") =>
      Math.round(median((measured[i] ?? []).map((each) => each[figure]))).toLocaleString("en");
    process.stdout.write(
      `| ${name} | ${callers} | ${of("perSecond")} | ${of("p50Us")} | ${of("p99Us")} | ${target} |\n`,
    );
  }
  let withoutRedis = 0;
  for (const { privateUrl } of gateways) {
    const { body } = await ask(`${privateUrl}/sluice/metrics`);
    withoutRedis += Number(/^sluice_degraded_decisions_total\{.*\} (\d+)/m.exec(body)?.[1] ?? 0);
  }
  process.stdout.write(`\nDecisions that were made without Redis: ${withoutRedis}\n`);
} finally {
  await Promise.all(gateways.map((gateway) => gateway.stop()));
  await redis.stop();
}
