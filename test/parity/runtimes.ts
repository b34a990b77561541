// The compared runtimes, each behind the same two methods.

import { type ChildProcessWithoutNullStreams, execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import type { Browser, Page } from "playwright-core";
import { startBrowser } from "../fixtures/clients/console-page.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { nginxUnderTest } from "../fixtures/servers/nginx-under-test.ts";
import { Program } from "../fixtures/servers/program.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { type Build, project } from "./build.ts";
import { memoryPlayer } from "./memory-player.ts";
import { play } from "./trace.ts";

/** Counters of one family, one after the other: `randomTrace(seed, family, first…, asks)`. */
export interface Share {
  readonly seed: number;
  readonly family: number;
  readonly first: number;
  readonly counters: number;
  readonly asks: number;
}

export interface Runtime {
  readonly name: string;
  /** Whether its shares may be played at the same time. */
  readonly parallel: boolean;
  /**
   * Plays a share. @returns a line per counter: its digest, how many were asked, how many were allowed
   *
   * @throws if the runtime fails, as `replay` does
   */
  digests(share: Share): Promise<string[]>;
  /** @returns for each event the numbers that `play` reports */
  replay(trace: readonly number[]): Promise<number[][]>;
  stop(): Promise<void>;
}

export const runtimeNames = ["luajit", "lua5.1", "redis", "nginx", "browser"] as const;
export type RuntimeName = (typeof runtimeNames)[number];

export function startRuntime(name: RuntimeName, build: Build): Promise<Runtime> | Runtime {
  if (name === "luajit") return new LuaProcess(name, "modules", build);
  if (name === "lua5.1") return new LuaProcess(name, "scripts", build);
  if (name === "redis") return InRedis.start(build);
  if (name === "nginx") return InNginx.start(build);
  return InBrowser.start(build);
}

/** Node, with which the others are compared; it always runs the project itself. */
export class InNode implements Runtime {
  readonly name = "node";
  readonly parallel = true;

  async digests({ seed, family, first, counters, asks }: Share): Promise<string[]> {
    const args = [join(project, "test/parity/play.ts"), ...[seed, family, first, counters, asks].map(String)];
    const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 64 * 1024 * 1024 });
    return stdout.trimEnd().split("\n");
  }

  async replay(trace: readonly number[]): Promise<number[][]> {
    const reported: number[][] = [];
    play(memoryPlayer(), trace, reported);
    return reported;
  }

  async stop(): Promise<void> {}
}

/** Starts a process for each share, and one more for all replays. */
class LuaProcess implements Runtime {
  readonly name: string;
  readonly parallel = true;
  readonly #kind: string;
  readonly #build: Build;
  #replayer: Asked | undefined;

  constructor(name: string, kind: "modules" | "scripts", build: Build) {
    this.name = name;
    this.#kind = kind;
    this.#build = build;
  }

  async digests(share: Share): Promise<string[]> {
    const asked = this.#start();
    try {
      return (await asked.answer(digestsLine(share))).split("\n");
    } finally {
      asked.stop();
    }
  }

  async replay(trace: readonly number[]): Promise<number[][]> {
    this.#replayer ??= this.#start();
    try {
      return numbersOf(await this.#replayer.answer(replayLine(trace)));
    } catch (error) {
      // An error ends the process.
      this.#replayer = undefined;
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#replayer?.stop();
  }

  #start(): Asked {
    return new Asked(this.name, ["test/parity/play.lua", this.#kind, this.#build.luaDir], this.#build.root);
  }
}

/** A process that answers one line with several lines, the last of them a dot. */
class Asked {
  readonly #child: ChildProcessWithoutNullStreams;
  #lines: string[] = [];
  #errors = "";
  #settle: { resolve(answer: string): void; reject(error: Error): void } | undefined;

  constructor(command: string, args: readonly string[], cwd: string) {
    this.#child = spawn(command, args, { cwd });
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#errors += text;
    });
    createInterface(this.#child.stdout).on("line", (line) => {
      if (line !== ".") {
        this.#lines.push(line);
        return;
      }
      const answer = this.#lines.join("\n");
      this.#lines = [];
      this.#settle?.resolve(answer);
    });
    this.#child.on("error", (error) => this.#settle?.reject(error));
    this.#child.on("close", (code) => this.#settle?.reject(new Error(`${command} ended (${code}): ${this.#errors}`)));
  }

  answer(line: string): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.#child.stdin.write(`${line}\n`);
    });
  }

  stop(): void {
    this.#settle = undefined;
    this.#child.stdin.end();
  }
}

/** Runs scripts of many decisions each, in which the product's scripts are functions and the time is the trace's. */
class InRedis implements Runtime {
  readonly name = "redis";
  readonly parallel = false;
  readonly #server: RedisServer;
  readonly #client: Redis;
  readonly #sha1: string;

  private constructor(server: RedisServer, client: Redis, sha1: string) {
    this.#server = server;
    this.#client = client;
    this.#sha1 = sha1;
  }

  static async start(build: Build): Promise<InRedis> {
    const driver = await redisDriver(build);
    const server = new RedisServer(await freePort());
    await server.start();
    const client = new Redis(server.port, "127.0.0.1");
    return new InRedis(server, client, (await client.script("LOAD", driver)) as string);
  }

  async digests(share: Share): Promise<string[]> {
    // After a script of more than 5 s, Redis would reply to others that it is busy.
    const step = 50;
    const lines: string[] = [];
    for (let done = 0; done < share.counters; done += step) {
      const counters = Math.min(step, share.counters - done);
      lines.push(...(await this.#ask(digestsLine({ ...share, first: share.first + done, counters }))).split("\n"));
    }
    return lines;
  }

  async replay(trace: readonly number[]): Promise<number[][]> {
    return numbersOf(await this.#ask(replayLine(trace)));
  }

  async stop(): Promise<void> {
    this.#client.disconnect();
    await this.#server.stop();
  }

  #ask(line: string): Promise<string> {
    return this.#client.evalsha(this.#sha1, 0, line) as Promise<string>;
  }
}

/** Keys keep their time to live, because Redis' clock does not advance while a script runs. */
async function redisDriver({ root, luaDir, trace }: Build): Promise<string> {
  const print = `for name, script in pairs(dofile("gateway/dist/sluice_redis_scripts.lua")) do
    io.write("scripts.", name, " = function(KEYS, ARGV)\\n", script.source, "\\nend\\n")
  end`;
  const { stdout: scripts } = await promisify(execFile)("lua5.1", ["-e", print], { cwd: root, maxBuffer: 1e8 });
  const file = (name: string) => readFileSync(join(root, "test/parity", name), "utf8");
  if (trace === "") throw new Error(`${luaDir} holds no traces`);
  return `local trace = (function()\n${trace}\nend)()
local newPlayer = (function()\n${file("redis-player.lua")}\nend)()
local answers = (function()\n${file("answers.lua")}\nend)()
local real = redis
local scripts = {}
local product = { nowUs = 0, scripts = scripts, unpack = struct.unpack }
local time, timeUs = {}, -1
local redis = {
  pcall = real.pcall,
  call = function(command, ...)
    if command ~= "TIME" then return real.call(command, ...) end
    if timeUs ~= product.nowUs then
      timeUs = product.nowUs
      time[1] = string.format("%.0f", math.floor(timeUs / 1000000))
      time[2] = string.format("%.0f", timeUs % 1000000)
    end
    return time
  end,
}
function product.run(name, keys, argv) return scripts[name](keys, argv) end
function product.get(key) return real.call("GET", key) end
function product.clear(keys) real.call("DEL", unpack(keys)) end
${scripts}
real.call("FLUSHALL")
return answers(trace, newPlayer(product, trace), ARGV[1])`;
}

/** Runs in the worker of an nginx of the test's own. */
class InNginx implements Runtime {
  readonly name = "nginx";
  readonly parallel = false;
  readonly #program: Program;
  readonly #port: number;
  readonly #directory: string;

  private constructor(program: Program, port: number, directory: string) {
    this.#program = program;
    this.#port = port;
    this.#directory = directory;
  }

  static async start({ root, luaDir }: Build): Promise<InNginx> {
    const port = await freePort();
    const directory = mkdtempSync(join(tmpdir(), "sluice-parity-nginx-"));
    const nginx = nginxUnderTest();
    const values: Record<string, string> = {
      MODULES: nginx.modules.map((file) => `load_module ${file};`).join(" "),
      DIRECTORY: directory,
      LUA_DIR: luaDir,
      PORT: `${port}`,
    };
    const template = readFileSync(join(project, "test/parity/nginx.conf"), "utf8");
    const config = template.replace(/\$\{([A-Z_]+)\}/g, (_, name: string) => values[name] as string);
    writeFileSync(join(directory, "nginx.conf"), config);
    const program = await Program.start({
      command: "env",
      args: ["-C", root, nginx.path, "-p", `${directory}/`, "-e", "error.log", "-c", join(directory, "nginx.conf")],
      readyWhen: () =>
        post(port, "digests 1 0 0 0 0").then(
          () => true,
          () => false,
        ),
    });
    return new InNginx(program, port, directory);
  }

  async digests(share: Share): Promise<string[]> {
    return (await post(this.#port, digestsLine(share))).split("\n");
  }

  async replay(trace: readonly number[]): Promise<number[][]> {
    return numbersOf(await post(this.#port, replayLine(trace)));
  }

  async stop(): Promise<void> {
    await this.#program.stop();
    rmSync(this.#directory, { recursive: true });
  }
}

/** The page has the bundle and nothing else. */
class InBrowser implements Runtime {
  readonly name = "browser";
  readonly parallel = false;
  readonly #browser: Browser;
  readonly #page: Page;

  private constructor(browser: Browser, page: Page) {
    this.#browser = browser;
    this.#page = page;
  }

  static async start({ browserScript }: Build): Promise<InBrowser> {
    const browser = await startBrowser();
    const page = await browser.newPage();
    await page.addScriptTag({ content: browserScript });
    return new InBrowser(browser, page);
  }

  async digests({ seed, family, first, counters, asks }: Share): Promise<string[]> {
    const call = `parity.digests(${[seed, family, first, counters, asks]})`;
    return ((await this.#page.evaluate(call)) as string).split("\n");
  }

  async replay(trace: readonly number[]): Promise<number[][]> {
    return (await this.#page.evaluate(`parity.replay([${trace}])`)) as number[][];
  }

  async stop(): Promise<void> {
    await this.#browser.close();
  }
}

function digestsLine({ seed, family, first, counters, asks }: Share): string {
  return `digests ${seed} ${family} ${first} ${counters} ${asks}`;
}

function replayLine(trace: readonly number[]): string {
  return `replay ${trace.join(" ")}`;
}

function numbersOf(answer: string): number[][] {
  if (answer === "") return [];
  return answer.split("\n").map((line) => (line === "" ? [] : line.split(" ").map(Number)));
}

function post(port: number, line: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port, method: "POST", agent: false }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      response.on("end", () => {
        if (response.statusCode === 200) resolve(body);
        else reject(new Error(`nginx answered ${response.statusCode}: ${body}`));
      });
    });
    sent.on("error", reject);
    sent.end(line);
  });
}
