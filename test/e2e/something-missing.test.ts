// A gateway that was started without something that it needs, or with the wrong thing, says so at the start and in its health,
// and the control plane that it connects to says so too.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ask, askAtOnce } from "../fixtures/clients/requests.ts";
import { withShortPauses } from "../fixtures/clients/short-pauses.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway, type LoneGatewayOptions } from "../fixtures/servers/lone-gateway.ts";
import { gatewayToken, System } from "../fixtures/servers/system.ts";
import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { until } from "../fixtures/until.ts";

let system: System;
let gateway: LoneGateway | undefined;
const directory = mkdtempSync(join(tmpdir(), "sluice-token-"));

beforeAll(async () => {
  system = await System.start({ gateways: 0 });
});
afterEach(async () => {
  await gateway?.stop();
  gateway = undefined;
});
afterAll(async () => {
  await system?.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** @param env variables besides the address of the control plane */
async function start(env: NodeJS.ProcessEnv, options: Partial<LoneGatewayOptions> = {}): Promise<LoneGateway> {
  gateway = await LoneGateway.start({ env: { SLUICE_CONTROL_URL: system.controlUrl, ...env }, ...options });
  return gateway;
}

const linesWith = (log: string, words: RegExp) => log.split("\n").filter((line) => words.test(line));

async function health(): Promise<{ status: number; body: Record<string, unknown> }> {
  const { status, body } = await ask(`${gateway?.url}/sluice/healthz`);
  return { status, body: JSON.parse(body) };
}

describe("a gateway without a token", () => {
  it("says once at its start what to set and where, and that the control plane refused it", async () => {
    await start({}, { workers: 2 });
    const said = () => linesWith(gateway?.log ?? "", /this gateway has no token/);
    await until("the gateway says it", () => said().length > 0);
    expect(said()[0]).toMatch(/\[error\].*set SLUICE_GATEWAY_TOKEN or SLUICE_GATEWAY_TOKEN_FILE in the environment/);
    expect(said()[0]).toContain('"env SLUICE_GATEWAY_TOKEN;"');
    await until("the refusal is logged", () => /refused this gateway.*\(401\)/.test(gateway?.log ?? ""));
    expect(said()).toHaveLength(1);
    expect(gateway?.log).not.toContain("RSV");
  });
});

describe("a gateway with a wrong token", () => {
  const wrong = "a-token-that-nobody-gave-to-gateways";

  it("is reported once in its own log and in the control plane's, and nothing else obscures it", async () => {
    const proxy = await TcpProxy.start(Number(new URL(system.controlUrl).port));
    onTestFinished(() => proxy.refuse());
    const env = { SLUICE_GATEWAY_TOKEN: wrong, SLUICE_CONTROL_URL: `http://127.0.0.1:${proxy.port}` };
    await start(env, { edit: (config) => withShortPauses(config) });
    await until("the gateway says it", () => linesWith(gateway?.log ?? "", /\(401\)/).length > 0);
    const [said] = linesWith(gateway?.log ?? "", /\(401\)/);
    expect(said).toMatch(
      /\[error\].*the control plane at ws:\S+ refused this gateway's token \(401\): .*SLUICE_GATEWAY_TOKEN/,
    );
    await until("the control plane says it", () => /The token is unknown/.test(system.controlPlaneOutput));
    const [reported] = linesWith(system.controlPlaneOutput, /The token is unknown/);
    expect(JSON.parse(reported as string)).toMatchObject({
      level: 40,
      address: "127.0.0.1",
      reason: "The token is unknown.",
    });
    // It tries again and again, which is no reason for a line each time.
    const before = proxy.accepted;
    await until("it has tried ten times more", () => proxy.accepted >= before + 10);
    expect(linesWith(system.controlPlaneOutput, /The token is unknown/)).toHaveLength(1);
    expect(linesWith(gateway?.log ?? "", /\(401\)/)).toHaveLength(1);
    expect(gateway?.log).not.toContain("RSV");
    expect((gateway?.log ?? "") + system.controlPlaneOutput).not.toContain(wrong);
  });
});

it("a gateway that finds something else at the control plane's address says what it got", async () => {
  await start({ SLUICE_CONTROL_URL: system.upstreamUrl, SLUICE_GATEWAY_TOKEN: gatewayToken });
  await until("the gateway says it", () => /got HTTP 200/.test(gateway?.log ?? ""));
  expect(linesWith(gateway?.log ?? "", /got HTTP 200/)[0]).toMatch(
    /expected the control plane at .*SLUICE_CONTROL_URL/,
  );
});

describe("SLUICE_GATEWAY_TOKEN_FILE", () => {
  // If the test runs as root, nginx's workers do not, as on servers.
  const unprivileged = (config: string) => config.replace("user root root;", "user nobody nogroup;");
  const file = (text: string) => {
    const path = join(directory, "gateway-token");
    // nginx's workers could not read this file, but its master can.
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };

  it("has nginx read the token before its workers give up root", async () => {
    await start({ SLUICE_GATEWAY_TOKEN_FILE: file(`${gatewayToken}\n`) }, { workers: 2, edit: unprivileged });
    await until("it is connected", async () => (await health()).body["connected"] === true);
    expect(gateway?.log).not.toContain("has no token");
  });

  it.each([
    ["that is not there", () => "/nonexistent/gateway-token", /No such file or directory/],
    ["that is empty", () => file("\n"), /an empty file/],
    ["that holds more than a token", () => file("two words"), /a file with something else in it/],
  ])("naming a file %s stops the start with the reason, and repeats no secret", async (_, path, got) => {
    const failure = await start({ SLUICE_GATEWAY_TOKEN_FILE: path() }).then(
      () => "it started",
      (error: Error) => error.message,
    );
    expect(failure).toMatch(/SLUICE_GATEWAY_TOKEN_FILE: expected a file that holds the gateways' token/);
    expect(failure).toMatch(got);
    expect(failure).not.toContain("two words");
  });
});

describe("a configuration that never calls sluice.initWorker()", () => {
  it("is reported in the log at the first request, and by healthz with 503", async () => {
    const edit = (config: string) => config.replace("sluice.initWorker()", "");
    await start({ SLUICE_GATEWAY_TOKEN: gatewayToken }, { policies: undefined, workers: 2, edit });
    expect((await ask(`${gateway?.url}/anything`)).status).toBe(404);
    expect(await health()).toMatchObject({ status: 503, body: { status: "sluice.initWorker() was not called" } });
    for (let i = 0; i < 10; i++) await ask(`${gateway?.url}/anything`);
    const said = linesWith(gateway?.log ?? "", /initWorker/);
    expect(said).toHaveLength(1);
    expect(said[0]).toMatch(/\[error\].*sluice\.initWorker\(\) was not called: call it in an init_worker_by_lua_block/);
  });
});

describe("a gateway without SLUICE_REDIS_URL that has a policy of scope cluster", () => {
  it("says so once, at the default level of error_log, and follows onStoreFailure", async () => {
    const limits = [{ algorithm: "fixed-window", quota: 2, window: "1d" }];
    const policies = [{ name: "fleet-wide", scope: "cluster", limits }];
    await start({}, { policies, workers: 2, edit: (config) => config.replace(/(error_log .*) notice;/, "$1;") });
    expect(await askAtOnce([`${gateway?.url}/anything`], 10)).toEqual({ 404: 2, 429: 8 });
    const said = linesWith(gateway?.log ?? "", /SLUICE_REDIS_URL/);
    expect(said).toHaveLength(1);
    expect(said[0]).toMatch(
      /\[error\].*a policy of scope cluster applies to a request, but SLUICE_REDIS_URL is not set here/,
    );
  });
});

describe("before the first snapshot, healthz", () => {
  const withoutSnapshot = { policies: undefined };
  const none = { status: "no policies yet", revision: 0, connected: false, errors: {} };

  it("is 200 and says that there are no policies yet, and ok once there are", async () => {
    const port = await freePort();
    await start({ SLUICE_CONTROL_URL: `http://127.0.0.1:${port}` }, withoutSnapshot);
    expect(await health()).toEqual({ status: 200, body: none });
    await gateway?.stop();
    await start({ SLUICE_GATEWAY_TOKEN: gatewayToken }, withoutSnapshot);
    await until("there are policies", async () => (await health()).body["status"] === "ok");
  });

  it("is 503 with SLUICE_REQUIRE_SNAPSHOT until there is one, and requests pass meanwhile", async () => {
    const env = { SLUICE_GATEWAY_TOKEN: gatewayToken, SLUICE_REQUIRE_SNAPSHOT: "true" };
    await system.stopControlPlane();
    await start(env, { ...withoutSnapshot, workers: 2, edit: (config) => withShortPauses(config) });
    expect(await health()).toEqual({ status: 503, body: none });
    // The upstream here answers 404 to a path that it does not know.
    expect((await ask(`${gateway?.url}/anything`)).status).toBe(404);
    await system.startControlPlane();
    await until("there are policies", async () => (await health()).status === 200);
    expect((await health()).body).toMatchObject({ status: "ok" });
  });

  it("is ok with a snapshot on disk, control plane or not", async () => {
    const port = await freePort();
    const env = { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}`, SLUICE_REQUIRE_SNAPSHOT: "1" };
    await start(env, { policies: [] });
    expect(await health()).toEqual({ status: 200, body: { status: "ok", revision: 1, connected: false, errors: {} } });
  });

  it("rejects a SLUICE_REQUIRE_SNAPSHOT that is neither yes nor no, and nginx does not start", async () => {
    await expect(start({ SLUICE_REQUIRE_SNAPSHOT: "perhaps" })).rejects.toThrow(
      'SLUICE_REQUIRE_SNAPSHOT: expected true or false, got "perhaps"',
    );
  });
});
