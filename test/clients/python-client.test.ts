// Runs what tests Python alone: its arguments, threads, forks and event loops, its types, and the wheel. The conformance suite tests what the clients
// of all languages do.

import { execFile } from "node:child_process";
import { cpSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Caller, callerOf } from "../fixtures/clients/check-api-client.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { makeMemoryDir, removeMemoryDir } from "../fixtures/servers/memory-dir.ts";
import { python, pythonClient, pythonEnv } from "./python-driver.ts";

const run = promisify(execFile);
const tls = resolve(import.meta.dirname, "../fixtures/tls");
const shop: Caller = { app: "default", token: "a-token-of-the-shop" };
const policy = (name: string, limit: object) => ({ name, key: ["header:x-user"], limits: [limit] });

const directory = makeMemoryDir("python");
const socket = join(directory, "gateway.sock");
let gateway: LoneGateway;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  const tlsPort = await freePort();
  gateway = await LoneGateway.start({
    policies: [
      policy("three", { algorithm: "fixed-window", quota: 3, window: "366d" }),
      policy("sms-vendor", { algorithm: "fixed-window", quota: 2, window: "366d" }),
      policy("many", { algorithm: "token-bucket", quota: 1_000_000, window: "1s" }),
      policy("slow", { algorithm: "token-bucket", quota: 1, window: "8s", burst: 1 }),
      policy("brief", { algorithm: "concurrency", quota: 1, ttl: "2s" }),
      policy("kept", { algorithm: "concurrency", quota: 1, ttl: "6s" }),
      policy("lasting", { algorithm: "concurrency", quota: 1, ttl: "5m" }),
    ],
    callers: [callerOf(shop)],
    edit: (config) =>
      config.replace(
        /For the operator alone.*?listen [^;]+;/s,
        `$&
         listen unix:${socket};
         listen 127.0.0.1:${tlsPort} ssl;
         ssl_certificate ${tls}/localhost.pem;
         ssl_certificate_key ${tls}/localhost.key;`,
      ),
  });
  env = {
    ...process.env,
    ...pythonEnv,
    SLUICE_TEST_URL: gateway.privateUrl,
    SLUICE_TEST_TOKEN: shop.token,
    SLUICE_TEST_SOCKET: socket,
    SLUICE_TEST_TLS_URL: `https://localhost:${tlsPort}`,
    SLUICE_TEST_CA_FILE: join(tls, "authority.pem"),
  };
});
afterAll(async () => {
  await gateway?.stop();
  removeMemoryDir(directory);
});

it.each([
  ["arguments", "test_arguments", 13],
  ["threads", "test_threads", 17],
  ["forks", "test_fork", 5],
  ["asyncio", "test_asyncio", 16],
])("passes its own tests of %s", async (_, module, tests) => {
  const output = await new Promise<string>((done) => {
    // A connection that nobody closes is an error as well.
    const args = ["-X", "dev", "-W", "error", "-m", "unittest", module];
    execFile(python, args, { cwd: join(pythonClient, "tests"), env }, (_error, stdout, stderr) =>
      done(stdout + stderr),
    );
  });
  expect(output).toMatch(new RegExp(`^Ran ${tests} tests in [\\d.]+s\\n\\nOK$`, "m"));
  expect(output).not.toContain("Warning");
});

it("has types throughout, which mypy finds nothing wrong with, also for the oldest Python", async () => {
  for (const version of ["3.9", "3.11"]) {
    const { stdout } = await run(
      "/usr/bin/mypy",
      ["--strict", "--cache-dir", "/dev/null", "--python-version", version, "src"],
      {
        cwd: pythonClient,
      },
    );
    expect(stdout).toMatch(/^Success: no issues found in \d+ source files\n$/);
  }
});

it("is installed as its README says into an empty environment, where its examples run", async () => {
  const readme = readFileSync(join(pythonClient, "README.md"), "utf8");
  const blocks = (language: string) =>
    [...readme.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms"))].map(([, text]) => text as string);
  const place = makeMemoryDir("python");
  try {
    // setuptools builds beside the sources.
    cpSync(pythonClient, join(place, "python"), { recursive: true });
    await run(python, ["-m", "venv", join(place, "env")]);
    const [build = "", install = ""] = (blocks("sh")[0] as string).trim().split("\n");
    const own = { ...process.env, PIP_NO_INDEX: "1", PIP_DISABLE_PIP_VERSION_CHECK: "1" };
    const built = build.replace("python3 ", `${python} `).replace("/path/to/sluice/clients/python", "python");
    await run("sh", ["-ec", built], { cwd: place, env: own });
    const path = `${join(place, "env/bin")}:${process.env["PATH"]}`;
    await run("sh", ["-ec", install], { cwd: place, env: { ...own, PATH: path } });

    const installed = join(place, "env/bin/python3");
    const ask = (program: string) =>
      run(installed, ["-W", "error", "-c", program.replace("http://127.0.0.1:8079", gateway.privateUrl)], {
        cwd: place,
        env: { ...own, TOKEN: shop.token },
      });
    const [threads = "", tasks = "", ...others] = blocks("python");
    // The quota of sms-vendor is 2.
    expect((await ask(threads)).stdout).toBe("send it\n");
    expect((await ask(tasks)).stdout).toBe("send it\n");
    expect((await ask(threads)).stdout).toMatch(/^wait \d{4,} s\n$/);
    expect(others).toHaveLength(3);
    const { stdout } = await ask(
      'import importlib.metadata as m; from importlib.resources import files; print(m.version("sluice-client"), m.requires("sluice-client"), files("sluice_client").joinpath("py.typed").is_file())',
    );
    expect(stdout).toBe("0.1.0 None True\n");
    // The other parts are statements, which at least compile.
    for (const part of others) await ask(`compile(${JSON.stringify(part)}, "README.md", "exec")`);
  } finally {
    removeMemoryDir(place);
  }
});
