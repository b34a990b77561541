// npm run bench -- rls: Envoy's rate limit service beside the check API itself, which the same client asks without gRPC. Both ask the same
// gateway of one worker, in turns; the figures are medians of the rounds.
import { SluiceClient } from "../../clients/typescript/src/index.ts";
import { say } from "../../launch/step.mjs";
import { callerOf } from "../../test/fixtures/clients/check-api-client.ts";
import { descriptor } from "../../test/fixtures/clients/envoy-client.ts";
import { freePort } from "../../test/fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../test/fixtures/servers/lone-gateway.ts";
import { RateLimitService } from "../../test/fixtures/servers/rate-limit-service.ts";
import { RedisServer } from "../../test/fixtures/servers/redis-server.ts";
import { cpuUs } from "../cpu-time.ts";
import { writeJson } from "../report.ts";
import { median, percentile } from "../statistics.ts";
import type { RlsOptions } from "./options.ts";

interface Run {
  readonly name: string;
  readonly scope: "node" | "cluster";
  readonly callers: number;
  /** Makes one call. @returns whether it was admitted by the gateway */
  readonly call: (key: string) => Promise<boolean>;
  /** The process between the caller and the gateway, if there is one. */
  readonly pid: number | undefined;
}

interface Figures {
  readonly perSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
  /** Of the service, for each decision. */
  readonly cpuUs: number;
}

const caller = { app: "default", token: "a-token-of-the-bench" };
const keys = 1000;

export async function rls({ rounds, seconds, jsonFile }: RlsOptions): Promise<void> {
  const redis = new RedisServer(await freePort());
  await redis.start();
  const gateway = await LoneGateway.start({
    policies: (["node", "cluster"] as const).map((scope) => ({
      name: `${scope}-user`,
      scope,
      match: { paths: ["/elsewhere"] },
      key: ["header:x-user"],
      limits: [{ algorithm: "token-bucket", quota: 10, window: "1m", burst: 100_000_000 }],
    })),
    callers: [callerOf(caller)],
    env: { SLUICE_REDIS_URL: redis.url },
  });
  const asked = { gateway: gateway.privateUrl, token: caller.token };
  const service = await RateLimitService.start(asked);
  const client = new SluiceClient({ url: asked.gateway, token: asked.token, deadlineMs: 10_000 });
  try {
    const runs = (["node", "cluster"] as const).flatMap((scope) =>
      [1, 100].flatMap((callers): Run[] => [
        {
          name: "the check API, asked by the client",
          scope,
          callers,
          call: throughClient(client, scope),
          pid: undefined,
        },
        {
          name: "Envoy's rate limit service",
          scope,
          callers,
          call: throughService(service, scope),
          pid: service.program.pid,
        },
      ]),
    );
    const measured = runs.map(() => [] as Figures[]);
    for (const run of runs) await measure(run, 1);
    for (let round = 0; round < rounds; round++) {
      for (const [i, run] of runs.entries()) measured[i]?.push(await measure(run, seconds));
      process.stdout.write(`sluice: round ${round + 1} of ${rounds} is done\n`);
    }
    const results = runs.map(({ name, scope, callers }, i) => {
      const of = (figure: keyof Figures) => median((measured[i] ?? []).map((each) => each[figure]));
      const figures = { perSecond: of("perSecond"), p50Us: of("p50Us"), p99Us: of("p99Us"), cpuUs: of("cpuUs") };
      return { name, scope, callers, ...figures };
    });
    writeJson(jsonFile, results);
    process.stdout.write(`\n${tableOf(results)}\n`);
    say(`results are in ${jsonFile}`);
  } finally {
    await client.close();
    await service.stop();
    await gateway.stop();
    await redis.stop();
  }
}

function throughClient(client: SluiceClient, scope: string): Run["call"] {
  return async (key) => {
    const { allowed, source } = await client.check(`${scope}-user`, [key]);
    return allowed && source === "gateway";
  };
}

function throughService({ client }: RateLimitService, scope: string): Run["call"] {
  return async (key) => {
    const { overallCode, statuses } = await client.ask({ domain: scope, descriptors: [descriptor("user", key)] });
    return overallCode === "OK" && statuses[0]?.currentLimit !== null;
  };
}

/** Each caller calls again as soon as it has its answer. @throws if a call is not what it must be */
async function measure({ name, callers, call, pid }: Run, seconds: number): Promise<Figures> {
  const times: number[] = [];
  const pids = pid === undefined ? [] : [pid];
  const cpuBefore = cpuUs(pids);
  const beganAt = performance.now();
  const endsAt = beganAt + seconds * 1000;
  let next = 0;
  const work = async () => {
    for (let startedAt = performance.now(); startedAt < endsAt; ) {
      next = (next + 1) % keys;
      if (!(await call(`user ${next}`))) throw new Error(`${name}: expected every call to be admitted, got a refusal`);
      const now = performance.now();
      times.push(now - startedAt);
      startedAt = now;
    }
  };
  await Promise.all(Array.from({ length: callers }, work));
  const perSecond = (times.length * 1000) / (performance.now() - beganAt);
  const cpu = (cpuUs(pids) - cpuBefore) / times.length;
  return { perSecond, p50Us: percentile(times, 0.5) * 1000, p99Us: percentile(times, 0.99) * 1000, cpuUs: cpu };
}

function tableOf(results: readonly ({ name: string; scope: string; callers: number } & Figures)[]): string {
  const shown = (value: number) => Math.round(value).toLocaleString("en");
  return [
    "| | scope | callers | decisions/s | p50 µs | p99 µs | CPU of the service, µs each |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ...results.map(
      ({ name, scope, callers, perSecond, p50Us, p99Us, cpuUs }) =>
        `| ${name} | ${scope} | ${callers} | ${[perSecond, p50Us, p99Us].map(shown).join(" | ")} | ${cpuUs === 0 ? "" : shown(cpuUs)} |`,
    ),
  ].join("\n");
}
