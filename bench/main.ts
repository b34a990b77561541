// npm run bench: puts every variant under the same load in turns, then prints a table and JSON. bench/README.md explains them.
import { cpSync } from "node:fs";
import { join } from "node:path";
import { gatewayDist, requireGatewayBuild } from "../launch/gateway-build.ts";
import { type Nginx, requireNginx } from "../launch/nginx-binary.ts";
import { fail, SetupError, say } from "../launch/step.mjs";
import { requireSystemPackages } from "../launch/system-packages.ts";
import { freePorts } from "../test/fixtures/servers/free-ports.ts";
import { against } from "./against/main.ts";
import { readAgainstOptions } from "./against/options.ts";
import { checkVariant } from "./check.ts";
import { clients } from "./clients/main.ts";
import { readClientsOptions } from "./clients/options.ts";
import { consumers } from "./consumers/main.ts";
import { readConsumersOptions } from "./consumers/options.ts";
import { controlPlane } from "./control-plane/main.ts";
import { readControlPlaneOptions } from "./control-plane/options.ts";
import { machineCpu } from "./cpu-time.ts";
import { instructions } from "./instructions/main.ts";
import { readInstructionsOptions } from "./instructions/options.ts";
import { intake } from "./intake/main.ts";
import { readIntakeOptions } from "./intake/options.ts";
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
import { networks } from "./networks/main.ts";
import { readNetworksOptions } from "./networks/options.ts";
import { type NginxInstance, type Place, startNginx } from "./nginx.ts";
import { type Options, readOptions } from "./options.ts";
import { Processes } from "./processes.ts";
import { profile } from "./profile.ts";
import { putMany } from "./put-many/main.ts";
import { readPutManyOptions } from "./put-many/options.ts";
import { type Redis, startRedis } from "./redis.ts";
import { tableOf, writeJson } from "./report.ts";
import { figuresOf, type Results, resultsOf } from "./results.ts";
import { rls } from "./rls/main.ts";
import { readRlsOptions } from "./rls/options.ts";
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

/** @returns false: something is not as it must be */
type Command = (processes: Processes, nginx: Nginx, luaDir: string) => Promise<unknown>;

/** Reads the options of a command, so that a bad one is reported before anything is started. @returns undefined: there is no such command */
function commandFor(name: string | undefined, args: readonly string[]): Command | undefined {
  if (name === "limiter" || name === "memory") {
    const options = readLimiterOptions(name, args);
    const run = name === "limiter" ? limiter : memory;
    return (started, nginx, luaDir) => run(started, nginx, luaDir, options);
  }
  if (name === "redis-core") {
    const options = readLimiterOptions(name, args);
    return (started, { path }, luaDir) => redisCore(started, path, luaDir, options);
  }
  if (name === "neighbour") {
    const options = readNeighbourOptions(args);
    return (started, nginx, luaDir) => neighbour(started, nginx, luaDir, options);
  }
  if (name === "against") {
    const options = readAgainstOptions(args);
    return (started, nginx, luaDir) => against(started, nginx, luaDir, options);
  }
  if (name === "instructions") {
    const options = readInstructionsOptions(args);
    return (started, nginx, luaDir) => instructions(started, nginx, luaDir, options);
  }
  if (name === "control-plane") {
    const options = readControlPlaneOptions(args);
    return (started, nginx, luaDir) => controlPlane(started, nginx, luaDir, options);
  }
  if (name === "networks") {
    const options = readNetworksOptions(args);
    return (started) => networks(started, options);
  }
  if (name === "clients") {
    const options = readClientsOptions(args);
    return () => clients(options);
  }
  if (name === "consumers") {
    const options = readConsumersOptions(args);
    return (started) => consumers(started, options);
  }
  if (name === "intake") {
    const options = readIntakeOptions(args);
    return (started, nginx, luaDir) => intake(started, nginx, luaDir, options);
  }
  return undefined;
}

// If the reader exits early (npm run bench | head), the bench must still stop its programs before it ends.
process.stdout.on("error", () => undefined);
let processes: Processes | undefined;
try {
  const [command, ...args] = process.argv.slice(2);
  if (command === "put-many") {
    await putMany(readPutManyOptions(args));
    process.exit(0);
  }
  if (command === "lists") {
    await lists(readListsOptions(args));
    process.exit(0);
  }
  if (command === "rls") {
    const options = readRlsOptions(args);
    await requireSystemPackages("test", process.env["SLUICE_NGINX"]);
    await requireGatewayBuild();
    await rls(options);
    process.exit(0);
  }
  const run = commandFor(command, args);
  if (run !== undefined) {
    processes = new Processes();
    const { nginx, luaDir } = await prepare(processes);
    const succeeded = await run(processes, nginx, luaDir);
    await processes.stop();
    process.exit(succeeded === false ? 1 : 0);
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
