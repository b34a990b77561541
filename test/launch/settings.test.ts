import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readSettings } from "../../launch/settings.ts";
import { unknownSettings } from "../../limiter/src/settings/setting-names.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";

it.each(["redis+other://a:1", "redis+cluster://", "localhost"])("refuses %s for a Redis", (url) => {
  expect(() => readSettings({ SLUICE_REDIS_URL: url })).toThrow(
    "SLUICE_REDIS_URL: expected redis://, redis+sentinel:// or redis+cluster://, or these with rediss for TLS, got something else",
  );
});

it.each(["redis://localhost:6379/1", "rediss://u:p@h", "redis+sentinel://a:1,b:2/m", "rediss+cluster://a:1"])(
  "takes %s for a Redis",
  (url) => {
    expect(readSettings({ SLUICE_REDIS_URL: url }).redisUrl).toBe(url);
  },
);

it.each([
  ["SLUICE_HEADERS", "foo", 'ietf, legacy, both or none, got "foo"'],
  ["SLUICE_REDIS_DEADLINE_MS", "abc", 'a number from 1 to 60000, got "abc"'],
  ["SLUICE_REDIS_DEADLINE_MS", "0", 'a number from 1 to 60000, got "0"'],
  ["SLUICE_MAX_WAITING", "1e3", 'a whole number from 1 to 1000000, got "1e3"'],
  ["SLUICE_OVERLOAD_REDIS_P99_MS", "50ms", 'a number from 1 to 60000, got "50ms"'],
  ["SLUICE_OVERLOAD_QUEUE", "0", 'a whole number from 1 to 1000000, got "0"'],
  [
    "SLUICE_CONTROL_URL",
    "ftp://a",
    'http://host:port or https://host:port, or several of them separated by commas, got "ftp://a"',
  ],
  [
    "SLUICE_CONTROL_URL",
    "http://a, https://b/c",
    'several of them separated by commas, got "https://b/c" as URL 2 of 2',
  ],
  ["SLUICE_CONTROL_URL", "http://a:1,", 'several of them separated by commas, got "" as URL 2 of 2'],
  ["SLUICE_DEBUG_SECRET", "short", "at least 16 characters, got something else"],
])("refuses %s=%s before anything has begun", (name, value, said) => {
  const read = () => readSettings({ [name]: value });
  expect(read).toThrow(`${name}: expected `);
  expect(read).toThrow(said);
});

it.each([
  "http://u:s3cret@h",
  "u:s3cret@h",
  "http://h/?key=s3cret",
  "http://a,http://u:s3,cret@h",
  "http://u:/s3cret@",
  "http://u:s3cret",
  "http://u:7s3cret/",
])("does not repeat %s, which has a secret", (url) => {
  for (const name of ["SLUICE_CONTROL_URL", "SLUICE_UPSTREAM"]) {
    expect(() => readSettings({ [name]: url })).toThrow(
      /^SLUICE_\w+: expected (?!.*cret).*, got a URL that may have a password$/,
    );
  }
});

it("takes several control planes, each once", () => {
  const { controlUrl } = readSettings({ SLUICE_CONTROL_URL: "http://a:8081, https://b/,http://a:8081" });
  expect(controlUrl).toBe("http://a:8081,https://b");
});

it("reports variables that nothing reads", () => {
  expect(unknownSettings(["SLUICE_REDIS_UR", "SLUICE_HEADER", "SLUICE_HEADERS", "OTHER"])).toEqual([
    "SLUICE_HEADER is no setting and does nothing; the nearest that there is: SLUICE_HEADERS",
    "SLUICE_REDIS_UR is no setting and does nothing; the nearest that there is: SLUICE_REDIS_URL",
  ]);
});

it("knows the variables that Kubernetes makes of services", () => {
  const made = ["SLUICE_SERVICE_HOST", "SLUICE_SERVICE_PORT", "SLUICE_PORT", "SLUICE_PORT_80_TCP_ADDR"];
  expect(unknownSettings([...made, "SLUICE_PORTS"])).toEqual([expect.stringMatching(/^SLUICE_PORTS is no setting/)]);
  expect(unknownSettings(["SLUICE_PORT"])).toEqual([expect.stringMatching(/^SLUICE_PORT is no setting/)]);
});

describe("a launcher with an invalid variable", () => {
  let dataDir: string;
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), "sluice-launch-"));
  });
  afterEach(() => rmSync(dataDir, { recursive: true }));

  /** @returns the exit code and all output of the launcher, once it has ended */
  async function launch(file: string, env: NodeJS.ProcessEnv): Promise<{ code: number; printed: string }> {
    const [port, privatePort, controlPort] = await freePorts(3);
    const child = spawn(process.execPath, [resolve(import.meta.dirname, "../../launch", file)], {
      env: {
        ...process.env,
        SLUICE_DATA_DIR: dataDir,
        SLUICE_GATEWAY_PORT: `${port}`,
        SLUICE_GATEWAY_PRIVATE_PORT: `${privatePort}`,
        SLUICE_CONTROL_PORT: `${controlPort}`,
        SLUICE_GATEWAY_TOKEN: "a-token-of-gateways",
        ...env,
      },
      // It may have to build the gateway or the console first.
      timeout: 240_000,
    });
    let printed = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (printed += text));
    const [code] = await once(child, "close");
    return { code, printed };
  }

  it.each([
    ["gateway.ts", "SLUICE_REDIS_URL", "redis://h/none", 'expected /DATABASE, a number, got "another path"'],
    ["control-plane.ts", "SLUICE_REDIS_URL", "redis://h/none", "expected /DATABASE, a number, got another path"],
  ])("%s ends with one line", async (file, name, value, said) => {
    const { code, printed } = await launch(file, { [name]: value, SLUICE_REDIS_UR: "redis://h" });
    expect(code).toBe(1);
    const lines = printed
      .trimEnd()
      .split("\n")
      .filter((line) => !line.includes("building the "));
    expect(lines).toEqual([
      "sluice: warning: SLUICE_REDIS_UR is no setting and does nothing; the nearest that there is: SLUICE_REDIS_URL",
      `sluice: ${name}: ${said}`,
    ]);
  });
});
