// The command sluice-check, on the configuration of a gateway that runs: each mistake has its sentence and the exit code, and the
// gateway notices nothing.

import { spawn } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { gatewayDist } from "../../launch/gateway-build.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { nginxUnderTest } from "../fixtures/servers/nginx-under-test.ts";
import { childrenOf } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

/** Debian's. */
const perl = "/usr/lib/nginx/modules/ngx_http_perl_module.so";
const directory = mkdtempSync(join(tmpdir(), "sluice-check-"));
/** Where an operator has put what the build makes. */
const installed = join(directory, "lib");
const limits = [{ algorithm: "fixed-window", quota: 1000, window: "1d" }];
let gateway: LoneGateway;

beforeAll(async () => {
  const policies = Array.from({ length: 300 }, (_, i) => ({
    name: `p${i}`,
    description: "x".repeat(800),
    match: { paths: [`/p${i}`] },
    limits,
  }));
  gateway = await LoneGateway.start({ policies, workers: 2 });
  mkdirSync(installed);
  for (const file of ["sluice.lua", "sluice_redis_scripts.lua", "sluice_check.lua", "sluice-check"]) {
    copyFileSync(join(gatewayDist, file), join(installed, file));
  }
});
afterAll(async () => {
  await gateway?.stop();
  rmSync(directory, { recursive: true, force: true });
});

interface Checked {
  readonly code: number | null;
  /** Without the name of the command; DIR is the directory of the configuration, PREFIX that of the gateway. */
  readonly lines: string[];
}

/** @param options of nginx */
async function run(options: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Checked> {
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith("SLUICE_"));
  const child = spawn(join(installed, "sluice-check"), options, {
    env: {
      ...Object.fromEntries(others),
      SLUICE_NGINX: nginxUnderTest().path,
      SLUICE_GATEWAY_DIR: gateway.snapshotDir,
      ...(env["SLUICE_GATEWAY_TOKEN_FILE"] === undefined ? { SLUICE_GATEWAY_TOKEN: "a-token-of-gateways" } : {}),
      ...env,
    },
    stdio: ["ignore", "pipe", "ignore"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  const lines = output
    .split("\n")
    // nginx's own warnings, such as that of a log that it cannot open.
    .filter((line) => line.startsWith("sluice-check: ") || line.includes("[emerg]"))
    .map((line) =>
      line
        .replace(/^sluice-check: /, "")
        .replaceAll(directory, "DIR")
        .replaceAll(gateway.directory, "PREFIX")
        .replace(/\.conf:\d+/g, ".conf:N"),
    );
  return { code, lines };
}

/** Checks the gateway's configuration, as an operator with the installed files would have it. */
async function check(edit: (config: string) => string, env?: NodeJS.ProcessEnv): Promise<Checked> {
  const original = readFileSync(join(gateway.directory, "nginx.conf"), "utf8").replace(gatewayDist, installed);
  const edited = edit(original);
  writeFileSync(join(directory, "nginx.conf"), edited);
  return await run(["-p", `${gateway.directory}/`, "-c", join(directory, "nginx.conf")], env);
}

const noAccess =
  'warning: no location has "access_by_lua_block { sluice.access() }", or sluice.rewrite() in its rewrite phase: requests that pass through this nginx may go unlimited';
const noLog = 'warning: DIR/nginx.conf:N: beside this Lua, expected "log_by_lua_block { sluice.log() }", got';
const late = ": slots of concurrency are freed late, and responses do not cost their bytes";
const noWorker = "without sluice.initWorker(), this nginx receives no policies and no changes of policies";
const unlike = (name: string, nearest: string) =>
  `${name} is no setting and does nothing; the nearest that there is: ${nearest}`;

const doesNotCompile = (directive: string, error: string) =>
  expect.stringContaining(
    `problem: DIR/nginx.conf:N: ${directive}: expected Lua that compiles, got an error in line:3: ${error}`,
  ) as string;

type Mistake = [
  what: string,
  edit: (config: string) => string,
  said: readonly string[],
  env?: NodeJS.ProcessEnv | undefined,
];

const mistakes: Mistake[] = [
  [
    "a missing dict",
    (config) => config.replace(/lua_shared_dict sluice_state .*/, "").replace(/lua_shared_dict sluice_locks .*/, ""),
    [
      'problem: the http block: expected "lua_shared_dict sluice_locks 1m;", got none: Sluice does not start',
      'problem: the http block: expected "lua_shared_dict sluice_state 112m;", got none: Sluice does not start',
    ],
  ],
  [
    "a dict that is too small for anything",
    (config) => config.replace("sluice_metrics 24m", "sluice_metrics 64k"),
    ['problem: DIR/nginx.conf:N: expected "lua_shared_dict sluice_metrics 24m;", got 64k, which is less than 128k'],
  ],
  [
    "a dict that is too small for the stored policies",
    (config) => config.replace("sluice_state 112m", "sluice_state 128k"),
    ["problem: what is on disk does not fit the shared dict sluice_state: no memory"],
  ],
  [
    "a wrong package path",
    (config) => config.replace(`${installed}/?.lua`, "/nowhere/?.lua"),
    [
      'problem: DIR/nginx.conf:N: lua_package_path "/nowhere/?.lua;;" leads to no sluice.lua: expected the directory that has it, as in "/usr/local/lib/sluice/?.lua;;"',
    ],
  ],
  [
    "a missing scripts file",
    (config) => {
      mkdirSync(join(directory, "half"), { recursive: true });
      copyFileSync(join(installed, "sluice.lua"), join(directory, "half/sluice.lua"));
      return config.replace(`${installed}/?.lua`, `${directory}/half/?.lua`);
    },
    [
      'problem: DIR/nginx.conf:N: lua_package_path "DIR/half/?.lua;;" leads to no sluice_redis_scripts.lua: expected it beside DIR/half/sluice.lua',
    ],
  ],
  [
    "a bad value of a setting",
    (config) => config,
    ['problem: SLUICE_HEADERS: expected ietf, legacy, both or none, got "some"'],
    { SLUICE_HEADERS: "some" },
  ],
  [
    "a bad value of a setting in nginx.conf",
    (config) => config.replace("env SLUICE_MAX_WAITING;", "env SLUICE_MAX_WAITING=many;"),
    ['problem: SLUICE_MAX_WAITING: expected a whole number from 1 to 1000000, got "many"'],
  ],
  [
    "a misspelt variable in the environment",
    (config) => config,
    [`problem: the environment: ${unlike("SLUICE_REDIS_UR", "SLUICE_REDIS_URL")}`],
    { SLUICE_REDIS_UR: "redis://127.0.0.1", SLUICE_OLD: "" },
  ],
  [
    "a misspelt variable in nginx.conf",
    (config) => config.replace("env SLUICE_HEADERS;", "env SLUICE_HEADER;"),
    [`problem: DIR/nginx.conf:N: ${unlike("SLUICE_HEADER", "SLUICE_HEADERS")}`],
  ],
  [
    "no token",
    (config) => config,
    [
      "warning: the environment: expected SLUICE_GATEWAY_TOKEN or SLUICE_GATEWAY_TOKEN_FILE, got neither: without a token, a gateway gets no policies. Give sluice-check the variables that the service has",
    ],
    { SLUICE_GATEWAY_TOKEN: undefined },
  ],
  [
    "a misspelt function",
    (config) => config.replace("sluice.healthz()", "sluice.health()"),
    [
      expect.stringMatching(
        /^problem: DIR\/nginx\.conf:N: expected one of the functions access, .*healthz, .*, got sluice\.health\(\)$/,
      ) as string,
    ],
  ],
  [
    "a function that is not called",
    (config) => config.replace("sluice.healthz()", "sluice.healthz"),
    [doesNotCompile("content_by_lua_block", "'=' expected near")],
  ],
  [
    "Lua without its end",
    (config) => config.replace("sluice.log()", "if true then sluice.log()"),
    [doesNotCompile("log_by_lua_block", "'end' expected (to close 'if' at line 2)")],
  ],
  [
    "another spelling of sluice",
    (config) => config.replace("sluice.healthz()", "Sluice.healthz()"),
    ["problem: DIR/nginx.conf:N: expected the variable sluice, which init_by_lua sets, got Sluice"],
  ],
  [
    "a location whose Lua hides the call around it",
    (config) =>
      config.replace("location / {", 'location / {\n location /admin { access_by_lua_block { ngx.header.x = "1" } }'),
    [
      "warning: DIR/nginx.conf:N: this Lua takes the place of that in DIR/nginx.conf:N, and does not call sluice.access() itself: requests go unlimited here",
    ],
  ],
  [
    "a local sluice",
    (config) => config.replace('sluice = require("sluice")', 'local sluice = require("sluice")'),
    Array.from(
      { length: 10 },
      () =>
        expect.stringMatching(
          /^problem: DIR\/nginx\.conf:N: sluice\.\w+\(\): expected init_by_lua to set the global sluice, as 'sluice = require\("sluice"\)' does, got none after it ran: is it local there\?$/,
        ) as string,
    ),
  ],
  [
    "a code cache that is off",
    (config) => config.replace("server_tokens off;", "server_tokens off; lua_code_cache off;"),
    ['problem: DIR/nginx.conf:N: expected no "lua_code_cache off": without the cache, Sluice limits nothing'],
  ],
  [
    "no call of init",
    (config) => config.replace(/^ *sluice\.init\(.*/m, "-- sluice.init()"),
    [
      'problem: DIR/nginx.conf:N: init_by_lua ran and did not call sluice.init(): expected sluice = require("sluice") and sluice.init() in it',
    ],
  ],
  [
    "no init_by_lua",
    (config) => config.replace(/init_by_lua_block \{.*?\n {2}\}/s, ""),
    [
      'problem: the http block: expected "init_by_lua_block { sluice = require("sluice") sluice.init() }", got none: Sluice does not start',
    ],
  ],
  [
    "an init_by_lua that fails by itself",
    (config) => config.replace(/^ *sluice\.init\(/m, 'error("no such table", 0)\nsluice.init('),
    ["problem: DIR/nginx.conf:N: init_by_lua fails: no such table"],
  ],
  [
    "an init_by_lua_file that is not there",
    (config) => config.replace(/init_by_lua_block \{.*?\n {2}\}/s, "init_by_lua_file lua/init.lua;"),
    [
      "problem: DIR/nginx.conf:N: init_by_lua_file: expected a file that nginx can read, got PREFIX/lua/init.lua: No such file or directory",
    ],
  ],
  [
    "no call of initWorker",
    (config) => config.replace("sluice.initWorker()", "-- sluice.initWorker()"),
    [`problem: DIR/nginx.conf:N: expected "init_worker_by_lua_block { sluice.initWorker() }", got none: ${noWorker}`],
  ],
  [
    "no init_worker_by_lua",
    (config) => config.replace(/init_worker_by_lua_block \{.*?\n {2}\}/s, ""),
    [`problem: the http block: expected "init_worker_by_lua_block { sluice.initWorker() }", got none: ${noWorker}`],
  ],
  [
    "an init_worker_by_lua that may call initWorker by a module",
    (config) => config.replace("sluice.initWorker()", 'require("ours").start()'),
    [`warning: DIR/nginx.conf:N: this Lua does not call sluice.initWorker() itself: ${noWorker}`],
  ],
  [
    "no call of access",
    (config) => config.replace("sluice.access()", 'ngx.log(ngx.INFO, "sluice.access()")'),
    [noAccess],
  ],
  [
    "no call of log",
    (config) => config.replace("sluice.log()", "-- sluice.log()\nngx.log(ngx.INFO, 1)"),
    [`${noLog} other Lua (DIR/nginx.conf:N)${late}`],
  ],
  ["no log_by_lua", (config) => config.replaceAll(/log_by_lua_block \{.*?\n {4}\}/gs, ""), [`${noLog} none${late}`]],
  [
    "a location with a log phase of its own",
    (config) => config.replace("proxy_pass", 'log_by_lua "ngx.shared.ours = 1"; proxy_pass'),
    [`${noLog} other Lua (DIR/nginx.conf:N)${late}`],
  ],
];

describe("sluice-check says", () => {
  it.each(mistakes)("%s", async (_, edit, said, env) => {
    const { code, lines } = await check(edit, env);
    const problems = lines.filter((line) => line.startsWith("problem: ")).length;
    expect(lines).toEqual([...said, `problems: ${problems}, warnings: ${said.length - problems}`]);
    expect(code).toBe(problems > 0 ? 1 : 0);
  });

  it.skipIf(nginxUnderTest().modules.length === 0 || !existsSync(perl))(
    "a bad value of a setting, beside a module that clears the environment",
    async () => {
      const edit = (config: string) => config.replace("load_module", `load_module ${perl}; load_module`);
      expect((await check(edit, { SLUICE_HEADERS: "some" })).lines).toEqual([
        'problem: SLUICE_HEADERS: expected ietf, legacy, both or none, got "some"',
        "problems: 1, warnings: 0",
      ]);
    },
  );

  it("what nginx itself says", async () => {
    const { code, lines } = await check((config) => config.replace("server_tokens off;", "server_tokens of;"));
    expect(lines).toEqual([
      expect.stringContaining("[emerg]"),
      `problem: ${nginxUnderTest().path} itself refuses the configuration`,
    ]);
    expect(code).toBe(1);
  });

  it("all mistakes at once", async () => {
    const { lines } = await check((config) =>
      mistakes
        .slice(0, 2)
        .reduce((edited, [, edit]) => edit(edited), config)
        .replace("sluice.access()", ""),
    );
    expect(lines.at(-1)).toBe("problems: 3, warnings: 1");
  });
});

describe("on a good configuration, sluice-check", () => {
  const good = { code: 0, lines: ["problems: 0, warnings: 0"] };

  it("says so, and leaves the gateway that runs with it alone", async () => {
    const files = () =>
      [join(gateway.directory, "nginx.pid"), join(gateway.directory, "error.log")].map((file) =>
        readFileSync(file, "utf8"),
      );
    const stored = () =>
      readdirSync(gateway.snapshotDir).map((name) => [name, statSync(join(gateway.snapshotDir, name)).mtimeMs]);
    const before = [files(), stored(), childrenOf(gateway.pid)];
    const temporary = join(directory, "temporary files");
    mkdirSync(temporary);
    expect(await check((config) => config, { TMPDIR: temporary })).toEqual(good);
    expect([files(), stored(), childrenOf(gateway.pid)]).toEqual(before);
    expect(readdirSync(temporary)).toEqual([]);
    expect((await ask(`${gateway.privateUrl}/sluice/healthz`)).status).toBe(200);
  });

  it("opens no port and writes neither pid nor log while it runs init_by_lua", async () => {
    const port = await freePort();
    const mark = join(directory, "init-runs");
    const wait = `io.open("${mark}", "w"):close() os.execute("while [ -e '${mark}' ]; do sleep 0.02; done")`;
    const pid = join(directory, "own.pid");
    const log = join(directory, "own.log");
    const checked = check((config) =>
      config
        .replace(/listen [^;]*/, `listen 127.0.0.1:${port}`)
        .replace(/pid "[^"]*"/, `pid "${pid}"`)
        .replace(/error_log "[^"]*"/, `error_log "${log}"`)
        .replace(/^ *sluice\.init\(/m, `${wait}\nsluice.init(`),
    );
    await until("init_by_lua runs", () => readdirSync(directory).includes("init-runs"));
    expect(await connects(port)).toBe(false);
    rmSync(mark);
    expect(await checked).toEqual(good);
    expect(await connects(port)).toBe(false);
    // nginx -T, like nginx -t, leaves them empty.
    expect([pid, log].map((file) => readFileSync(file, "utf8"))).toEqual(["", ""]);
  });

  it.skipIf(process.getuid?.() !== 0)("reads as root what workers of another account may not read", async () => {
    const token = join(directory, "gateway-token");
    writeFileSync(token, "a-token-of-gateways\n", { mode: 0o600 });
    const env = { SLUICE_GATEWAY_TOKEN_FILE: token };
    expect(await check((config) => config.replace("user root root;", "user nobody nogroup;"), env)).toEqual(good);
  });

  it("finds what is in included files and in files of Lua", async () => {
    const parts = join(directory, "parts");
    mkdirSync(parts);
    const pieces: Record<string, RegExp> = {
      "init.conf": /init_by_lua_file [^;]*;/,
      "worker.conf": /init_worker_by_lua_block \{.*?\n {2}\}/s,
      "dicts.conf": /lua_shared_dict .*160m;/s,
      "site.conf": /server \{.*?\n {2}\}\n/s,
    };
    writeFileSync(join(directory, "access.lua"), 'local own = require("sluice")\nown.access()\n');
    writeFileSync(join(directory, "init.lua"), 'sluice = require("sluice")\nsluice.init()\n');
    const { code, lines } = await check((config) => {
      let rest = config
        .replace(/init_by_lua_block \{.*?\n {2}\}/s, `init_by_lua_file ${directory}/init.lua;`)
        .replace(/access_by_lua_block \{.*?\n {6}\}/s, `access_by_lua_file ${directory}/access.lua;`);
      for (const [file, piece] of Object.entries(pieces)) {
        writeFileSync(join(parts, file), piece.exec(rest)?.[0] ?? "");
        rest = rest.replace(piece, "");
      }
      // A configuration may be what nginx -T once printed.
      return `# configuration file /etc/nginx/nginx.conf:\n${rest.replace("http {", "http { include parts/[a-z]*.conf;")}`;
    });
    expect({ code, lines }).toEqual(good);
  });

  it("finds Lua with braces, quotes and comments in it", async () => {
    const lua = `
      local text = "}" .. '\\'}' .. [==[ } ]] ]==] -- } '
      --[[ } " ]] local t = { a = { "{" } }
      sluice.access()`;
    const checked = await check((config) =>
      config
        .replace("sluice.access()", lua)
        .replace(
          "server_tokens off;",
          'server_tokens "off"; access_by_lua_no_postpone off; map $host $x { default \'}\'; a "{\\""; }',
        ),
    );
    expect(checked).toEqual(good);
  });

  it("finds the call of a location that has others in it", async () => {
    const nested = "location / {\n location /static/ { access_by_lua_block { } }";
    expect(await check((config) => config.replace("location / {", nested))).toEqual(good);
  });

  it("goes by the options of nginx: -g", async () => {
    expect(
      (
        await run([
          "-g",
          "env SLUICE_HEADER;",
          "-p",
          `${gateway.directory}/`,
          "-c",
          join(gateway.directory, "nginx.conf"),
        ])
      ).lines,
    ).toEqual([`problem: -g:1: ${unlike("SLUICE_HEADER", "SLUICE_HEADERS")}`, "problems: 1, warnings: 0"]);
    expect((await run(["--no-such-option"])).code).toBe(1);
  });
});

async function connects(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  const opened = await new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  });
  socket.destroy();
  await sleep(0);
  return opened;
}
