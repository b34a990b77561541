// npm run bench: puts every variant under the same load in turns, then prints a table and JSON. bench/README.md explains them.
import { cpSync } from "node:fs";
import { join } from "node:path";
import { gatewayDist, requireGatewayBuild } from "../launch/gateway-build.ts";
import { type Nginx, requireNginx } from "../launch/nginx-binary.ts";
import { fail, SetupError, say } from "../launch/step.mjs";
import { requireSystemPackages } from "../launch/system-packages.ts";
import { against } from "./against/main.ts";
import { readAgainstOptions } from "./against/options.ts";
import { checkVariant } from "./check.ts";
import { machineCpu } from "./cpu-time.ts";
import { freePorts } from "./free-ports.ts";
import { limiter } from "./limiter/main.ts";
import { memory } from "./limiter/memory.ts";
import { readLimiterOptions } from "./limiter/options.ts";
import { redisCore } from "./limiter/redis-core.ts";
import { lists } from "./lists/main.ts";
import { readListsOptions } from "./lists/options.ts";
import { describeMachine } from "./machine.ts";
import { combine, measure, type Run, type Slice, sliceSeconds } from "./measure.ts";
import { neighbour } from "./neighbour/main.ts";
import { readNeighbourOptions } from "./neighbour/options.ts";
import { type NginxInstance, type Place, startNginx } from "./nginx.ts";
import { type Options, readOptions } from "./options.ts";
import { Processes } from "./processes.ts";
import { profile } from "./profile.ts";
import { type Redis, startRedis } from "./redis.ts";
import { tableOf, writeJson } from "./report.ts";
import { figuresOf, type Results, resultsOf } from "./results.ts";
import { snapshotLoad } from "./snapshot-load/main.ts";
import { readSnapshotLoadOptions } from "./snapshot-load/options.ts";
import { instances, type Variant } from "./variants.ts";

type Nginxes = ReadonlyMap<Variant["instance"], NginxInstance>;

async function main(processes: Processes, options: Options): Promise<void> {
  const { nginx, luaDir } = await prepare(processes);
  const machine = describeMachine(nginx.path);
  const [redisPort = 0, closedPort = 0] = await freePorts(2);
  const redis = await startRedis(processes, redisPort);
  const start = () =>
    startAll(processes, options.variants, {
      nginx,
      luaDir,
      redisPort,
      closedPort,
      profile: options.profile !== undefined,
    });

  if (options.profile !== undefined) {
    const target = nginxOf(await start(), options.profile);
    process.stdout.write(
      `${await profile(processes, options.profile, target, options.connections, options.seconds)}\n`,
    );
    return;
  }

  let nginxes = await start();
  const checked = await checkAll(options.variants, nginxes, redis);
  const luajit = await aboutLua(nginxes);
  const runs = new Map(checked.map((variant) => [variant, [] as Run[]]));
  const cpuBefore = machineCpu();
  let degradedDecisions = 0;
  for (let round = 0; round < options.rounds; round++) {
    // Each round starts its own nginxes: which traces LuaJIT makes of the same code differs from start to start.
    if (round > 0) nginxes = await start();
    const load = (variant: Variant) =>
      measure(processes, variant, nginxOf(nginxes, variant), redis, options.connections);
    process.stdout.write(`sluice: round ${round + 1} of ${options.rounds}: warming up\n`);
    for (const variant of checked) await load(variant);

    const slices = new Map(checked.map((variant) => [variant, [] as Slice[]]));
    const sliceCount = options.seconds / sliceSeconds;
    for (let pass = 0; pass < sliceCount; pass++) {
      for (const variant of rotated(checked, (round + pass / sliceCount) / options.rounds)) {
        slices.get(variant)?.push(await load(variant));
      }
    }
    for (const [variant, taken] of slices) {
      const run = combine(taken);
      runs.get(variant)?.push(run);
      const rate = (run.requestsPerSecond / 1000).toFixed(1);
      process.stdout.write(`  ${variant.name} ${rate}k req/s, nginx ${run.nginxCpuUs.toFixed(2)} µs\n`);
    }
    degradedDecisions += await countDegraded(nginxes);
    await Promise.all([...nginxes.values()].map((instance) => instance.stop()));
  }
  const cpuAfter = machineCpu();

  const about: Omit<Results, "variants" | "targets"> = {
    date: new Date().toISOString(),
    machine: { ...machine, luajit },
    options: { rounds: options.rounds, seconds: options.seconds, connections: options.connections },
    stolenShare: (cpuAfter.stealTicks - cpuBefore.stealTicks) / (cpuAfter.allTicks - cpuBefore.allTicks),
    degradedDecisions,
  };
  const results = resultsOf(about, figuresOf(runs));
  writeJson(options.jsonFile, results);
  process.stdout.write(`\n${tableOf(results)}\n`);
  say(`results are in ${options.jsonFile}`);
}

async function prepare({ directory }: Processes): Promise<{ nginx: Nginx; luaDir: string }> {
  await requireSystemPackages("test", process.env["SLUICE_NGINX"]);
  const nginx = requireNginx(process.env["SLUICE_NGINX"]);
  await requireGatewayBuild();
  // A build in the meantime must not change what is measured.
  const luaDir = join(directory, "lua");
  cpSync(gatewayDist, luaDir, { recursive: true });
  return { nginx, luaDir };
}

async function startAll(
  processes: Processes,
  variants: readonly Variant[],
  place: Omit<Place, "port">,
): Promise<Nginxes> {
  const names = [...new Set(variants.map(({ instance }) => instance))];
  const ports = await freePorts(names.length);
  const started = new Map<Variant["instance"], NginxInstance>();
  for (const [i, name] of names.entries()) {
    started.set(name, await startNginx(processes, name, instances[name], { ...place, port: ports[i] ?? 0 }));
  }
  return started;
}

async function checkAll(variants: readonly Variant[], nginxes: Nginxes, redis: Redis) {
  const checked: Variant[] = [];
  for (const variant of variants) {
    const problem = await checkVariant(variant, nginxOf(nginxes, variant), redis);
    if (problem === undefined) checked.push(variant);
    else throw new SetupError(`${variant.name} does not work: ${problem}`);
  }
  return checked;
}

/** Every pass begins further down the list, so that no variant always runs on a machine heated by the same other one. */
function rotated(variants: readonly Variant[], share: number): Variant[] {
  const start = Math.floor(share * variants.length);
  return [...variants.slice(start), ...variants.slice(0, start)];
}

async function countDegraded(nginxes: Nginxes): Promise<number> {
  let degraded = 0;
  for (const nginx of nginxes.values()) degraded += (await nginx.decisions())["degraded"] ?? 0;
  return degraded;
}

async function aboutLua(nginxes: Nginxes): Promise<string> {
  const [first] = nginxes.values();
  return first === undefined ? "" : await (await fetch(`${first.url}/about`)).text();
}

function nginxOf(nginxes: Nginxes, { instance, name }: Variant): NginxInstance {
  const nginx = nginxes.get(instance);
  if (nginx === undefined) throw new Error(`${name}: its nginx was not started`);
  return nginx;
}

// If the reader exits early (npm run bench | head), the bench must still stop its programs before it ends.
process.stdout.on("error", () => undefined);
let processes: Processes | undefined;
try {
  const [command, ...args] = process.argv.slice(2);
  if (command === "limiter" || command === "memory") {
    const options = readLimiterOptions(command, args);
    processes = new Processes();
    const { nginx, luaDir } = await prepare(processes);
    const run = command === "limiter" ? limiter : memory;
    const succeeded = await run(processes, nginx, luaDir, options);
    await processes.stop();
    process.exit(succeeded ? 0 : 1);
  }
  if (command === "redis-core") {
    const options = readLimiterOptions(command, args);
    processes = new Processes();
    const { nginx, luaDir } = await prepare(processes);
    await redisCore(processes, nginx.path, luaDir, options);
    await processes.stop();
    process.exit(0);
  }
  if (command === "lists") {
    await lists(readListsOptions(args));
    process.exit(0);
  }
  if (command === "neighbour") {
    const options = readNeighbourOptions(args);
    processes = new Processes();
    const { nginx, luaDir } = await prepare(processes);
    await neighbour(processes, nginx, luaDir, options);
    await processes.stop();
    process.exit(0);
  }
  if (command === "against") {
    const options = readAgainstOptions(args);
    processes = new Processes();
    const { nginx, luaDir } = await prepare(processes);
    await against(processes, nginx, luaDir, options);
    await processes.stop();
    process.exit(0);
  }
  if (command === "snapshot-load") {
    const options = readSnapshotLoadOptions(args);
    processes = new Processes();
    const { nginx, luaDir } = await prepare(processes);
    await snapshotLoad(processes, nginx, luaDir, options);
    await processes.stop();
    process.exit(0);
  }
  const options = readOptions(process.argv.slice(2));
  processes = new Processes();
  await main(processes, options);
  await processes.stop();
  process.exit(0);
} catch (error) {
  await processes?.stop();
  fail(error);
}
