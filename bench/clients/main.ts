// npm run bench -- clients: what a call of each client takes, alone and with a hundred callers, beside a service that sends each check by
// plain HTTP. One gateway of one worker, in scope node and in scope cluster with Redis; all variants in turns.
import { join } from "node:path";
import { SetupError, say } from "../../launch/step.mjs";
import { clients as ownClients } from "../../test/clients/clients.ts";
import { Driver, type Load } from "../../test/clients/driver.ts";
import { callerOf } from "../../test/fixtures/clients/check-api-client.ts";
import { freePort } from "../../test/fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../test/fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../../test/fixtures/servers/redis-server.ts";
import { table, writeJson } from "../report.ts";
import { median } from "../statistics.ts";
import type { ClientsOptions } from "./options.ts";

const caller = { app: "default", token: "a-token-of-the-bench" };
const callersAtOnce = [1, 100] as const;
const warmUpSeconds = 2;

interface Run {
  readonly client: string;
  readonly scope: "node" | "cluster";
  readonly callers: number;
  readonly loads: Load[];
}

export async function clients({ rounds, seconds, jsonFile }: ClientsOptions): Promise<void> {
  const redis = new RedisServer(await freePort());
  const drivers = new Map<string, Driver>();
  let gateway: LoneGateway | undefined;
  try {
    await redis.start();
    gateway = await LoneGateway.start({
      policies: (["node", "cluster"] as const).map((scope) => ({
        name: scope,
        scope,
        match: { paths: ["/elsewhere"] },
        key: ["header:x-key"],
        limits: [{ algorithm: "token-bucket", quota: 100_000_000, window: "1m" }],
      })),
      callers: [callerOf(caller)],
      env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "2000" },
    });
    const plain = async () => ({ command: process.execPath, args: [join(import.meta.dirname, "plain-http.ts")] });
    for (const { language, driver } of [{ language: "plain HTTP (Node)", driver: plain }, ...ownClients]) {
      const started = new Driver(await driver());
      await started.client({ url: gateway.privateUrl, token: caller.token, deadlineMs: 10_000 });
      drivers.set(language, started);
    }
    const runs = [...drivers.keys()].flatMap((client) =>
      (["node", "cluster"] as const).flatMap((scope) =>
        callersAtOnce.map((callers): Run => ({ client, scope, callers, loads: [] })),
      ),
    );
    const ask = ({ client, scope, callers }: Run, forSeconds: number) => {
      const call = { call: "check", policy: scope, key: ["bench"] };
      return (drivers.get(client) as Driver).load({ callers, seconds: forSeconds, call, keys: 1000 });
    };
    for (const run of runs) await ask(run, warmUpSeconds);
    for (let round = 0; round < rounds; round++) {
      say(`round ${round + 1} of ${rounds}`);
      for (const run of runs) run.loads.push(checked(run, await ask(run, seconds)));
    }
    writeJson(jsonFile, { date: new Date().toISOString(), rounds, seconds, runs });
    process.stdout.write(`${report(runs)}\n`);
    say(`results are in ${jsonFile}`);
  } finally {
    await Promise.all([...drivers.values()].map((driver) => driver.stop()));
    await gateway?.stop();
    await redis.stop();
  }
}

/** Failures are quick, and would make a client look good. */
function checked({ client, scope }: Run, load: Load): Load {
  const { errors, failures, refused } = load;
  if (errors + failures + refused === 0) return load;
  throw new SetupError(`${client}, ${scope}: ${errors} errors, ${failures} failures and ${refused} refusals`);
}

function report(runs: readonly Run[]): string {
  const of = (loads: readonly Load[], figure: (load: Load) => number) => median(loads.map(figure));
  const lines = table(
    ["client", "scope", "callers", "calls/s", "p50 ms", "p99 ms"],
    runs.map(({ client, scope, callers, loads }) => [
      client,
      scope,
      `${callers}`,
      Math.round(of(loads, ({ calls, seconds }) => calls / seconds)).toLocaleString("en"),
      of(loads, ({ p50Ms }) => p50Ms).toFixed(2),
      of(loads, ({ p99Ms }) => p99Ms).toFixed(2),
    ]),
  );
  return lines.join("\n");
}
