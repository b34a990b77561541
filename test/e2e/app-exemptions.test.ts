// Whom a whole app exempts, and whom app `default` exempts for all apps: no policy counts them, and bans still refuse them. Two apps share
// a gateway, and the control plane changes their exemptions while it runs.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { auth } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { System } from "../fixtures/servers/system.ts";

const debugSecret = "who may see why, may see it";
const office = "127.0.0.50";
const monitor = "127.0.0.60";
const onceADay = [{ algorithm: "fixed-window", quota: 1, window: "1d" }];

let system: System;
let caller: string;
beforeAll(async () => {
  system = await System.start({ env: { SLUICE_DEBUG_SECRET: debugSecret } });
  for (const app of ["crm", "bank"]) await system.api("PUT", `/apps/${app}`, { realm: { hosts: [`${app}.test`] } });
  for (const app of ["crm", "bank", "default"]) {
    const match = { hosts: [`${app}.test`] };
    await put(app, "by-user", { match, key: ["ip", "header:x-user"], limits: onceADay });
    await put(app, "in-all", { match: { ...match, paths: ["/all"] }, key: ["ip"], limits: onceADay });
  }
  const made = await system.api("POST", "/tokens?wait=30s", { name: "sms", app: "crm", role: "caller" });
  caller = JSON.parse(made.body).token;
  await exempt("crm", { cidrs: [`${office}/32`, "::1"], keys: [{ part: "header:X-User", pattern: "health-*" }] });
});
afterAll(() => system?.stop());

const put = (app: string, name: string, policy: object) =>
  system.api("PUT", `/apps/${app}/policies/${name}?wait=30s`, policy);

async function exempt(app: string, exempt: object | null): Promise<void> {
  const { status, body } = await system.api("PUT", `/apps/${app}?wait=30s`, { exempt });
  expect([status, JSON.parse(body).applied]).toEqual([200, { gateways: 1, acked: 1, refused: 0 }]);
}

const visit = (app: string, from: string, user: string, path = "/", more: Record<string, string> = {}) =>
  ask(`${system.gateway.url}${path}`, { headers: { host: `${app}.test`, "x-user": user, ...more }, from });

/** How many of three visits are admitted. */
async function admitted(app: string, from: string, user: string, path?: string): Promise<number> {
  let count = 0;
  for (let n = 0; n < 3; n++) if ((await visit(app, from, user, path)).status === 200) count += 1;
  return count;
}

describe("an app", () => {
  it("exempts networks and values of a part of keys from all its policies, and from no other app's", async () => {
    expect(await admitted("crm", office, "ann")).toBe(3);
    expect(await admitted("crm", "127.0.0.1", "health-1")).toBe(3);
    expect(await admitted("crm", "127.0.0.1", "ann")).toBe(1);
    expect(await admitted("bank", office, "ann")).toBe(1);
    expect(await admitted("bank", "127.0.0.1", "health-1")).toBe(1);
    expect(await admitted("default", office, "ann")).toBe(1);
  });

  it("does not exempt by a part that a policy does not have in its key", async () => {
    expect(await admitted("crm", "127.0.0.2", "health-2", "/all")).toBe(1);
    expect(await admitted("crm", office, "health-2", "/all")).toBe(3);
  });

  it("is said to exempt in the debugging answer and in the check API", async () => {
    const { headers } = await visit("crm", office, "ann", "/", { "x-sluice-debug": debugSecret });
    expect(headers["x-sluice-explain"] ?? JSON.stringify(headers)).toContain("exempt");
    const { status, headers: told } = await auth(
      system.gateway.privateUrl,
      { app: "crm", token: caller },
      `policy=by-user&key=${office}&key=ann`,
    );
    expect([status, told["x-ratelimit-limit"]]).toEqual([204, undefined]);
  });

  it("still refuses whom it bans", async () => {
    const banned = await system.api("POST", "/apps/crm/bans?wait=30s", {
      policy: "by-user",
      keyPattern: ["*", "health-7"],
      for: "1h",
    });
    expect(banned.status).toBe(201);
    expect((await visit("crm", "127.0.0.1", "health-7")).status).toBe(403);
    await system.api("POST", "/apps/crm/bans?wait=30s", { cidr: office, for: "1h" });
    expect((await visit("crm", office, "ann")).status).toBe(403);
  });
});

describe("app default", () => {
  it("exempts from the policies of all apps, beside what they exempt themselves, and its change holds at once", async () => {
    await exempt("default", { cidrs: [monitor], keys: [{ part: "header:x-user", pattern: "probe" }] });
    for (const app of ["crm", "bank", "default"]) {
      expect(await admitted(app, monitor, "ann")).toBe(3);
      expect(await admitted(app, "127.0.0.3", "probe")).toBe(3);
      expect(await admitted(app, "127.0.0.3", "probing")).toBe(1);
    }
    expect(await admitted("crm", "127.0.0.3", "health-3")).toBe(3);
    await exempt("default", { cidrs: ["127.0.0.61"] });
    for (const app of ["crm", "bank", "default"]) expect(await admitted(app, monitor, "bob")).toBe(1);
    expect(await admitted("bank", "127.0.0.61", "bob")).toBe(3);
    await exempt("default", null);
    expect(await admitted("bank", "127.0.0.61", "eve")).toBe(1);
  });

  it("keeps all hosts and paths while it exempts somebody, and its network bans hold everywhere", async () => {
    await exempt("default", { cidrs: [monitor] });
    expect(await admitted("default", "127.0.0.4", "ann")).toBe(1);
    await system.api("POST", "/apps/default/bans?wait=30s", { cidr: monitor, for: "1h" });
    expect((await visit("bank", monitor, "ann")).status).toBe(403);
    expect((await visit("nobody", monitor, "ann")).status).toBe(403);
  });
});
