// Apps share a gateway, each in its realm. The tests are what an app's editor may try on the traffic of others with their own
// token, and what a ban of the app refuses.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { System } from "../fixtures/servers/system.ts";

const bannedByCrm = "127.0.0.40";
const bannedBySms = "127.0.0.41";
const debugSecret = "who may see why, may see it";
const onceADay = { limits: [{ algorithm: "fixed-window", quota: 1, window: "1d" }] };
const evil = { status: 200, body: "<form>your password, please</form>", headers: ["set-cookie: sid=evil"] };

let system: System;
let editorOfCrm: string;
let editorOfSms: string;
beforeAll(async () => {
  system = await System.start({ env: { SLUICE_DEBUG_SECRET: debugSecret } });
  await system.api("PUT", "/apps/crm", { realm: { hosts: ["crm.test"], paths: ["/api"] } });
  await system.api("PUT", "/apps/bank", { realm: { hosts: ["bank.test"] } });
  await system.api("PUT", "/apps/sms");
  editorOfCrm = await tokenOf("crm");
  editorOfSms = await tokenOf("sms");
});
afterAll(() => system?.stop());

async function tokenOf(app: string, role = "editor"): Promise<string> {
  return JSON.parse((await system.api("POST", "/tokens", { name: `${role} of ${app}`, app, role })).body).token;
}

/** Puts a policy. @returns what the API answers */
async function put(token: string, app: string, name: string, policy: object) {
  const answer = await ask(`${system.controlUrl}/api/v1/apps/${app}/policies/${name}?wait=30s`, {
    method: "PUT",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ ...onceADay, ...policy }),
  });
  const { errors, applied, warnings } = JSON.parse(answer.body);
  return { status: answer.status, fields: errors?.map(({ path }: { path: string }) => path), applied, warnings };
}

async function ban(token: string, app: string, cidr: string): Promise<number> {
  const { status } = await ask(`${system.controlUrl}/api/v1/apps/${app}/bans?wait=30s`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ cidr, for: "1h" }),
  });
  return status;
}

const visit = (host: string, path: string, from = "127.0.0.1") =>
  ask(`${system.gateway.url}${path}`, { headers: { host }, from });

/** @returns whether three of three requests are answered by the service behind the gateway, as they are without any policy */
async function isUntouched(host: string, path: string): Promise<boolean> {
  for (let i = 0; i < 3; i++) {
    const { status, body, headers } = await visit(host, path);
    const echo = status === 200 ? JSON.parse(body) : {};
    if (echo.path !== path || headers["set-cookie"] !== undefined || echo.headers.authorization !== undefined)
      return false;
    if (headers["x-ratelimit-limit"] !== undefined) return false;
  }
  return true;
}

describe("an editor of one app", () => {
  it("cannot answer for another app's login page: degrade.response with a page and a cookie", async () => {
    const onLimit = { action: "degrade", response: evil };
    for (const match of [undefined, { hosts: ["bank.test"], paths: ["/login"] }, { hosts: ["*.test"] }]) {
      expect((await put(editorOfCrm, "crm", "login", { match, onLimit })).status).toBe(400);
    }
    // The first policy is within the realm but sets a cookie; the second is allowed.
    const match = { hosts: ["crm.test"], paths: ["/api/page"] };
    expect((await put(editorOfCrm, "crm", "login", { match, onLimit })).fields).toEqual([
      "onLimit.response.headers[0]",
    ]);
    const own = { action: "degrade", response: { ...evil, headers: [] } };
    expect(await put(editorOfCrm, "crm", "page", { match, onLimit: own })).toMatchObject({
      status: 201,
      applied: { acked: 1 },
    });
    expect((await visit("crm.test", "/api/page")).body).toContain('"path"');
    expect((await visit("crm.test", "/api/page")).body).toBe(evil.body);
    expect(await isUntouched("bank.test", "/login")).toBe(true);
    expect(await isUntouched("bank.test", "/api/page")).toBe(true);
    expect(await isUntouched("crm.test", "/login")).toBe(true);
  });

  it("cannot put an authorization header on another app's requests: tag", async () => {
    const stolen = { action: "tag", header: "authorization: Bearer stolen" };
    const match = { hosts: ["bank.test"] };
    expect((await put(editorOfCrm, "crm", "tag", { match, onLimit: stolen })).fields).toEqual([
      "match.hosts[0]",
      "match.paths",
      "onLimit.header",
    ]);
    expect(await isUntouched("bank.test", "/transfer")).toBe(true);
    const own = { hosts: ["crm.test"], paths: ["/api/tagged"] };
    expect((await put(editorOfCrm, "crm", "tag", { match: own, onLimit: stolen })).fields).toEqual(["onLimit.header"]);
  });

  it("cannot reach /sluice/healthz or another app by degrade.uri", async () => {
    const match = { hosts: ["crm.test"], paths: ["/api/degraded"] };
    for (const uri of ["/sluice/healthz", "/%73luice/healthz", "/login"]) {
      const onLimit = { action: "degrade", uri };
      expect((await put(editorOfCrm, "crm", "degraded", { match, onLimit })).fields).toEqual(["onLimit.uri"]);
    }
    const onLimit = { action: "degrade", uri: "/api/cheap" };
    expect((await put(editorOfCrm, "crm", "degraded", { match, onLimit })).status).toBe(201);
    expect(JSON.parse((await visit("crm.test", "/api/degraded")).body).path).toBe("/api/degraded");
    expect(JSON.parse((await visit("crm.test", "/api/degraded")).body).path).toBe("/api/cheap");
  });

  it("without a realm can make policies for the check API that match no request", async () => {
    const everywhere = await put(editorOfSms, "sms", "vendor", {
      onLimit: { action: "degrade", response: { ...evil, headers: [] } },
    });
    expect(everywhere).toMatchObject({
      status: 201,
      applied: { acked: 1 },
      warnings: [{ path: "match" }, { path: "key" }],
    });
    for (const host of ["bank.test", "crm.test", "any.test"]) expect(await isUntouched(host, "/login")).toBe(true);
    const caller = await tokenOf("sms", "caller");
    const check = () =>
      ask(`${system.gateway.privateUrl}/sluice/v1/check`, {
        method: "POST",
        headers: { authorization: `Bearer ${caller}`, "content-type": "application/json" },
        body: JSON.stringify({ checks: [{ policy: "vendor", key: [] }] }),
      });
    expect(JSON.parse((await check()).body).allowed).toBe(true);
    expect(JSON.parse((await check()).body).allowed).toBe(false);
  });
});

describe("a ban of an address by an app", () => {
  it("applies in the whole realm of the app, also where no policy matches, and not outside", async () => {
    expect(await ban(editorOfCrm, "crm", bannedByCrm)).toBe(201);
    for (const path of ["/api", "/api/nobody/limits/this", "/api/page", "//api/x", "/api/../api/x"]) {
      expect([path, (await visit("crm.test", path, bannedByCrm)).status]).toEqual([path, 403]);
    }
    for (const [host, path] of [
      ["crm.test", "/login"],
      ["crm.test", "/apix"],
      ["bank.test", "/api"],
      ["any.test", "/"],
    ] as const) {
      expect([host, path, (await visit(host, path, bannedByCrm)).status]).toEqual([host, path, 200]);
    }
    expect((await visit("crm.test", "/api/nobody/limits/this")).status).toBe(200);
    const reported = { host: "crm.test", "x-sluice-debug": debugSecret };
    const why = async (from: string) =>
      (await ask(`${system.gateway.url}/api/x`, { headers: reported, from })).headers["x-sluice-debug"];
    expect(await why(bannedByCrm)).toBe("refused by a ban of app crm");
    expect(await why("127.0.0.1")).toBe("no policy is met");
  });

  it("without a realm applies to no request", async () => {
    expect(await ban(editorOfSms, "sms", bannedBySms)).toBe(201);
    for (const host of ["crm.test", "bank.test", "any.test"]) {
      expect([host, (await visit(host, "/api/x", bannedBySms)).status]).toEqual([host, 200]);
    }
  });

  it("applies in a realm from the moment that an admin sets it", async () => {
    const answer = await system.api("PUT", "/apps/sms?wait=30s", { realm: null });
    expect(answer.status).toBe(200);
    await ask(`${system.controlUrl}/api/v1/apps/sms/policies/vendor`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${editorOfSms}` },
    });
    await system.api("PUT", "/apps/sms?wait=30s", { realm: { paths: ["/sms"] } });
    expect((await visit("any.test", "/sms/send", bannedBySms)).status).toBe(403);
    expect((await visit("any.test", "/smsx", bannedBySms)).status).toBe(200);
    await system.api("PUT", "/apps/sms?wait=30s", { realm: null });
    expect((await visit("any.test", "/sms/send", bannedBySms)).status).toBe(200);
  });
});
