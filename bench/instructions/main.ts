// npm run bench -- instructions: counts the instructions that nginx's worker executes for a request, outside of the kernel, with this build and
// with another one. Neighbours on the machine change times, and hardly this.
import { execFileSync } from "node:child_process";
import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Nginx } from "../../launch/nginx-binary.ts";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import { freePorts } from "../../test/fixtures/servers/free-ports.ts";
import { describeMachine } from "../machine.ts";
import { type NginxInstance, startNginx } from "../nginx.ts";
import type { Processes } from "../processes.ts";
import { startRedis } from "../redis.ts";
import { table } from "../report.ts";
import { median } from "../statistics.ts";
import { instances, type Variant } from "../variants.ts";
import { runWrk } from "../wrk.ts";
import type { InstructionsOptions } from "./options.ts";

/** Under valgrind everything takes some fifty times as long. */
const patienceMs = 120_000;
/** callgrind takes orders only in the process that it was started with. */
const isAlone = true;
/** In the meantime, LuaJIT compiles what runs often. */
const warmUpSeconds = 4;
/** With eight, it was chance from where malloc took a request's memory, and calls of Redis were seven times as many (bench/README.md). */
const connections = 64;

export async function instructions(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  options: InstructionsOptions,
): Promise<void> {
  await requireSystemPackages("instructions", process.env["SLUICE_NGINX"]);
  const [redisPort = 0, closedPort = 0] = await freePorts(2);
  await startRedis(processes, redisPort);
  const counted = { ...nginx, path: countingNginx(processes.directory, nginx, options.isWithin) };
  const count = async (variant: Variant, build: string, directory: string) => {
    const [port = 0] = await freePorts(1);
    const place = {
      nginx: counted,
      luaDir: directory,
      port,
      redisPort,
      closedPort,
      profile: false,
      patienceMs,
      isAlone,
    } as const;
    const started = await startNginx(processes, `${variant.instance}-${build}`, instances[variant.instance], place);
    const perRequest = await countFor(processes, variant, started, options.seconds);
    await started.stop();
    return perRequest;
  };

  const rows: string[][] = [];
  for (const variant of options.variants) {
    const others: number[] = [];
    const own: number[] = [];
    for (let round = 0; round < options.rounds; round++) {
      others.push(await count(variant, "other", options.luaDir));
      own.push(await count(variant, "own", luaDir));
    }
    const ratio = median(own) / median(others);
    const spread = (numbers: readonly number[]) => `${whole(Math.min(...numbers))} … ${whole(Math.max(...numbers))}`;
    const row = [
      variant.name,
      whole(median(others)),
      whole(median(own)),
      ratio.toFixed(3),
      spread(others),
      spread(own),
    ];
    rows.push(row);
    process.stdout.write(`  ${row.join("  ")}\n`);
  }
  const { cpu, cores, nginx: version } = describeMachine(nginx.path);
  const head = ["variant", "other", "own", "own ÷ other", "other, all rounds", "own, all rounds"];
  process.stdout.write(
    `\n${cpu}, ${cores} cores; ${version}; instructions per request\n${table(head, rows).join("\n")}\n`,
  );
}

/** Returns a program that runs nginx so that its instructions are counted. LuaJIT writes code while it runs. */
function countingNginx(directory: string, { path }: Nginx, isWithin: boolean): string {
  const program = join(directory, "counting-nginx");
  const what = isWithin ? "--collect-atstart=no --toggle-collect=ngx_http_process_request" : "";
  const options = `--tool=callgrind --smc-check=all ${what} --callgrind-out-file='${directory}/counted.%p'`;
  writeFileSync(program, `#!/bin/sh\nexec valgrind ${options} '${path}' "$@"\n`, { mode: 0o755 });
  return program;
}

/** @returns instructions per request */
async function countFor(
  processes: Processes,
  variant: Variant,
  nginx: NginxInstance,
  seconds: number,
): Promise<number> {
  const [worker = 0] = nginx.workerPids;
  const load = (forSeconds: number) => runWrk(processes, nginx.url, variant, connections, forSeconds, patienceMs);
  await load(warmUpSeconds);
  control(worker, "--zero");
  const { requests, socketErrors } = await load(seconds);
  control(worker, "--dump");
  if (socketErrors > 0) throw new Error(`${variant.name}: expected no socket errors, got ${socketErrors}`);
  const files = globSync(join(processes.directory, `counted.${worker}.*`));
  const totals = files.map((file) => totalIn(readFileSync(file, "utf8")));
  for (const file of files) rmSync(file);
  return totals.reduce((sum, total) => sum + total, 0) / requests;
}

function control(pid: number, order: "--zero" | "--dump"): void {
  execFileSync("callgrind_control", [order, String(pid)], { stdio: "ignore", timeout: patienceMs });
}

function totalIn(report: string): number {
  const [, total] = /^(?:summary|totals): (\d+)/m.exec(report) ?? [];
  if (total === undefined) throw new Error("callgrind: expected a line with the total, got none");
  return Number(total);
}

function whole(number: number): string {
  return Math.round(number).toLocaleString("en");
}
