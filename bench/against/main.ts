// npm run bench -- against: compares this build with another one, slice by slice. Two runs of the bench one after the other differ
// by up to a third on a shared machine; two slices of a second that follow each other differ by less, and the median of many
// pairs by a few percent.
import type { Nginx } from "../../launch/nginx-binary.ts";
import { freePorts } from "../../test/fixtures/servers/free-ports.ts";
import { describeMachine } from "../machine.ts";
import { measure } from "../measure.ts";
import { type NginxInstance, startNginx } from "../nginx.ts";
import type { Processes } from "../processes.ts";
import { type Redis, startRedis } from "../redis.ts";
import { table } from "../report.ts";
import { median } from "../statistics.ts";
import { instances, type Variant } from "../variants.ts";
import type { AgainstOptions } from "./options.ts";

interface Pair {
  /** µs of nginx's CPU a request. */
  readonly otherUs: number;
  readonly ownUs: number;
}

export async function against(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  options: AgainstOptions,
): Promise<void> {
  const [redisPort = 0, closedPort = 0] = await freePorts(2);
  const redis = await startRedis(processes, redisPort);
  const rows: string[][] = [];
  for (const variant of options.variants) {
    const pairs: Pair[] = [];
    for (let round = 0; round < options.rounds; round++) {
      const [otherPort = 0, ownPort = 0] = await freePorts(2);
      const start = (build: string, directory: string, port: number) => {
        const place = { nginx, luaDir: directory, port, redisPort, closedPort, profile: false };
        return startNginx(processes, `${variant.instance}-${build}`, instances[variant.instance], place);
      };
      const other = await start("other", options.luaDir, otherPort);
      const own = await start("own", luaDir, ownPort);
      pairs.push(...(await takePairs(processes, variant, other, own, redis, options)));
      await Promise.all([other.stop(), own.stop()]);
    }
    const row = rowOf(variant, pairs);
    rows.push(row);
    process.stdout.write(`  ${row.join("  ")}\n`);
  }
  const { cpu, cores, nginx: version } = describeMachine(nginx.path);
  const head = ["variant", "other µs", "own µs", "own ÷ other", "middle half"];
  process.stdout.write(`\n${cpu}, ${cores} cores; ${version}\n${table(head, rows).join("\n")}\n`);
}

/** The builds take turns: a different one begins each pair, so that none always runs second. */
async function takePairs(
  processes: Processes,
  variant: Variant,
  other: NginxInstance,
  own: NginxInstance,
  redis: Redis,
  { slices, connections }: AgainstOptions,
): Promise<Pair[]> {
  const slice = async (nginx: NginxInstance) => {
    const { nginxUs, requests } = await measure(processes, variant, nginx, redis, connections);
    return nginxUs / requests;
  };
  // The first slices are the warm-up: LuaJIT compiles.
  for (const nginx of [other, own, other, own]) await slice(nginx);
  const pairs: Pair[] = [];
  for (let i = 0; i < slices; i++) {
    if (i % 2 === 0) {
      const otherUs = await slice(other);
      pairs.push({ otherUs, ownUs: await slice(own) });
    } else {
      const ownUs = await slice(own);
      pairs.push({ otherUs: await slice(other), ownUs });
    }
  }
  return pairs;
}

function rowOf({ name }: Variant, pairs: readonly Pair[]): string[] {
  const ratios = pairs.map(({ otherUs, ownUs }) => ownUs / otherUs).sort((a, b) => a - b);
  const quarter = Math.floor(ratios.length / 4);
  const [low = 0, high = 0] = [ratios[quarter], ratios[ratios.length - 1 - quarter]];
  return [
    name,
    median(pairs.map(({ otherUs }) => otherUs)).toFixed(2),
    median(pairs.map(({ ownUs }) => ownUs)).toFixed(2),
    median(ratios).toFixed(3),
    `${low.toFixed(2)} to ${high.toFixed(2)}`,
  ];
}
