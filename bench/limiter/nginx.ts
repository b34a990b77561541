// Starts an nginx of one worker that runs one of the programs in bench/lua, and sends requests to it.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Nginx } from "../../launch/nginx-binary.ts";
import { freePorts } from "../../test/fixtures/servers/free-ports.ts";
import { untilAnswers } from "../nginx.ts";
import { snapshotOf } from "../policies.ts";
import type { Processes } from "../processes.ts";
import type { Case } from "./cases.ts";

const template = join(import.meta.dirname, "nginx.conf");
let started = 0;

export interface Program {
  /** A program of bench/lua, with a function `start` and one that answers requests. */
  readonly name: string;
  readonly args: readonly (string | number)[];
  /** The limit of the policy in snapshot.json. Absent: there is no such file. */
  readonly limit?: Pick<Case, "algorithm" | "quota" | "windowUs" | "size">;
  /** What other files of its directory contain, by name. */
  readonly files?: Readonly<Record<string, string>>;
  readonly dictSize: string;
}

export interface ProgramInNginx {
  ask(query: string): Promise<string>;
  stop(): Promise<void>;
}

/** @param luaDir the built gateway; what nginx writes goes to a directory next to it */
export async function startProgram(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  { name, args, limit, files = {}, dictSize }: Program,
): Promise<ProgramInNginx> {
  started += 1;
  const directory = join(processes.directory, `${name}-${started}`);
  mkdirSync(directory, { recursive: true });
  for (const file of ["sluice.lua", "sluice_redis_scripts.lua"])
    copyFileSync(join(luaDir, file), join(directory, file));
  if (limit !== undefined) writeFileSync(join(directory, "snapshot.json"), snapshotOf([policyOf(limit)]));
  for (const [file, text] of Object.entries(files)) writeFileSync(join(directory, file), text);
  const [port = 0] = await freePorts(1);
  const values: Record<string, string> = {
    MODULES: nginx.modules.map((file) => `load_module ${file};`).join(" "),
    USER: process.getuid?.() === 0 ? "user root;" : "",
    DIR: directory,
    PORT: String(port),
    BENCH_LUA_DIR: join(import.meta.dirname, "../lua"),
    DICT_SIZE: dictSize,
    PROGRAM: name,
    ARGUMENTS: [...args.slice(0, 1), directory, ...args.slice(1)].map((value) => JSON.stringify(value)).join(", "),
  };
  const conf = readFileSync(template, "utf8").replace(/\$\{([A-Z_]+)\}/g, (_, key: string) => values[key] ?? "");
  writeFileSync(join(directory, "nginx.conf"), conf);
  const { ended, stop } = processes.start({
    name: `nginx ${name}`,
    command: nginx.path,
    args: [
      "-p",
      `${directory}/`,
      "-e",
      join(directory, "error.log"),
      "-c",
      join(directory, "nginx.conf"),
      "-g",
      "daemon off;",
    ],
  });
  const url = `http://127.0.0.1:${port}/`;
  await Promise.race([untilAnswers(`${url}?mode=ready`), ended]);
  const ask = async (query: string) => {
    const answer = await fetch(`${url}?${query}`);
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${name}: ${readFileSync(join(directory, "error.log"), "utf8").slice(-2000)}`);
    return text;
  };
  return { ask, stop };
}

function policyOf({ algorithm, quota, windowUs, size }: NonNullable<Program["limit"]>) {
  const ms = (us: number) => `${us / 1000}ms`;
  const limit: Record<string, unknown> = { algorithm, quota };
  limit[algorithm === "concurrency" ? "ttl" : "window"] = ms(windowUs);
  if (algorithm.endsWith("bucket")) limit["burst"] = size;
  if (algorithm === "sliding-window") limit["precision"] = ms(size);
  return { name: "bench", key: ["ip"], limits: [limit] };
}
