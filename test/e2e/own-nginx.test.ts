// In an operator's own nginx that lacks something, Sluice says what is missing and what to do about it.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { until } from "../fixtures/until.ts";

let gateway: LoneGateway | undefined;
afterEach(async () => {
  await gateway?.stop();
  gateway = undefined;
});

const once = {
  name: "once",
  match: { paths: ["/once"] },
  limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
};

describe.skipIf(process.getuid?.() !== 0)("where nginx's workers cannot write", () => {
  const reported = () =>
    [...(gateway as LoneGateway).log.matchAll(/sluice: nginx's workers run as .*/g)].map(([line]) => line);

  it("the log says once at the start, whatever the number of workers, which directory to make and by which command", async () => {
    // This is like an nginx whose configuration names no directory: its prefix belongs to root.
    gateway = await LoneGateway.start({ policies: [], workers: 3, env: { SLUICE_GATEWAY_DIR: "" } });
    await until("it is said", () => reported().length > 0);
    const [line] = reported();
    expect(line).toMatch(/workers run as www-data and cannot write in \S+\/gateway-\d+\/ \(Permission denied\)/);
    expect(line).toContain(
      'As root: mkdir -p /var/lib/sluice && chown www-data /var/lib/sluice, set SLUICE_GATEWAY_DIR=/var/lib/sluice in nginx\'s environment and write "env SLUICE_GATEWAY_DIR;" into nginx.conf',
    );
    expect(reported()).toHaveLength(1);
  });

  it("the command in the log is all that is needed", async () => {
    const parent = mkdtempSync(join(tmpdir(), "sluice-own-"));
    onTestFinished(() => rmSync(parent, { recursive: true }));
    execFileSync("chmod", ["711", parent]);
    const directory = join(parent, "to", "be made".replace(" ", "-"));
    gateway = await LoneGateway.start({ policies: [], env: { SLUICE_GATEWAY_DIR: directory } });
    await until("it is said", () => reported().length > 0);
    expect(reported()[0]).toContain("(No such file or directory)");
    const [, command = ""] = /As root: (.*); then restart nginx/.exec(reported()[0] ?? "") ?? [];
    expect(command).toMatch(/^mkdir -p \S+ && chown www-data \S+$/);
    execFileSync("/bin/sh", ["-c", command]);
    await gateway.restart();
    await until("it is running", async () => (await ask(`${gateway?.url}/sluice/healthz`)).status === 200);
    expect(reported()).toHaveLength(1);
    expect(statSync(directory).uid).not.toBe(0);
  });
});

describe("without ngx_lua's code cache", () => {
  const off = "sluice: lua_code_cache is off: every request starts with an empty Lua state, without policies";
  const errors = async () => {
    const { body } = await ask(`${gateway?.privateUrl}/sluice/metrics`);
    return Number(/^sluice_errors_total\{place="access"\} (\d+)$/m.exec(body)?.[1]);
  };

  it("requests pass, count as errors and are logged in a location where it is off, and limits hold everywhere else", async () => {
    const route =
      "location = /uncached { lua_code_cache off; access_by_lua_block { sluice.access() } content_by_lua_block { ngx.exit(204) } }";
    const edit = (config: string) => config.replace("location / {", `${route}\n    location / {`);
    gateway = await LoneGateway.start({ policies: [once], edit });
    expect(await errors()).toBe(0);
    // The upstream here answers 404 to a path that it does not know.
    expect((await ask(`${gateway.url}/uncached`)).status).toBe(204);
    expect((await ask(`${gateway.url}/once`)).status).toBe(404);
    expect((await ask(`${gateway.url}/once`)).status).toBe(429);
    expect(gateway.log).toContain(off);
    expect(await errors()).toBe(1);
  });

  it.each([
    ["http", (config: string) => config.replace("http {", "http { lua_code_cache off;")],
    ["server", (config: string) => config.replace(/log_by_lua_block/g, "lua_code_cache off;\n    log_by_lua_block")],
  ])("the gateway is unhealthy where it is off in %s, and counts every request", async (_, edit) => {
    gateway = await LoneGateway.start({ edit });
    for (let i = 0; i < 3; i++) expect((await ask(`${gateway.url}/once`)).status).toBe(404);
    const { status, body } = await ask(`${gateway.privateUrl}/sluice/healthz`);
    expect([status, JSON.parse(body)]).toMatchObject([503, { status: "lua_code_cache is off", errors: { access: 3 } }]);
    expect(await errors()).toBe(3);
    expect(gateway.log).toContain(off);
  });
});
