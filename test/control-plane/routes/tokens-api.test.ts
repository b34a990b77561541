import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import {
  gatewayToken,
  sharedControlPlane,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { storedText } from "../../fixtures/servers/test-database.ts";
import { roomMs } from "../../fixtures/until.ts";

const nowMs = 1_800_000_000_000;
const sha256 = (token: string) => createHash("sha256").update(token).digest("hex");

describe("POST /tokens", () => {
  const shared = sharedControlPlane();

  it.each([
    ["owner", /^sluice_own_/],
    ["editor", /^sluice_edt_/],
    ["viewer", /^sluice_vwr_/],
    ["caller", /^sluice_call_/],
  ])("makes a token of the role %s, without expiry unless stated", async (role, prefix) => {
    const { call } = await startControlPlane();
    const { status, headers, body } = await call("POST", "/tokens", { body: { name: "x", app: "default", role } });
    expect([status, headers.get("cache-control")]).toEqual([201, "no-store"]);
    expect(body).toMatchObject({ name: "x", app: "default", role });
    expect(body.token).toMatch(prefix);
    expect(body.token).toMatch(/_[A-Za-z0-9_-]{43}$/);
    expect(body).not.toHaveProperty("expiresAt");
  });

  it("shows when the token expires, in whole seconds and never too early", async () => {
    const { call } = await startControlPlane({}, { now: () => nowMs + 1 });
    const body = { name: "x", app: "default", role: "viewer", expiresIn: "30d" };
    const { expiresAt } = (await call("POST", "/tokens", { body })).body;
    expect(expiresAt).toBe(new Date(nowMs + 30 * 86_400_000 + 1_000).toISOString());
  });

  it.each([
    [{}, ["name: nothing"]],
    [{ name: "x" }, [": none of these"]],
    [{ name: "x", app: "default" }, [": app"]],
    [{ name: "x", app: "default", role: "viewer", member: "ann" }, [": app and role and member"]],
    [{ name: "x", app: "default", role: "gateway" }, ['role: "gateway"']],
    [{ name: "x", app: "default", role: "admin" }, ['role: "admin"']],
    [{ name: "", app: "Default", role: "viewer" }, ['app: "Default"', 'name: ""']],
    [{ name: "a\nb", app: "default", role: "viewer" }, ['name: "a?b"']],
    [{ name: "admin\u202etxt", app: "default", role: "viewer" }, ['name: "admin\u202etxt"']],
    [{ name: "admin\u200b", app: "default", role: "viewer" }, ['name: "admin\u200b"']],
    [{ name: "admin\u3164", app: "default", role: "viewer" }, ['name: "admin\u3164"']],
    [{ name: "ad\u034fmin", app: "default", role: "viewer" }, ['name: "ad\u034fmin"']],
    [{ name: "admin ", app: "default", role: "viewer" }, ['name: "admin "']],
    [{ name: "x".repeat(101), app: "default", role: "viewer" }, [`name: "${"x".repeat(80)}…"`]],
    [{ name: "x", app: "default", role: "viewer", expiresIn: "0s" }, ['expiresIn: "0s"']],
    [{ name: "x", app: "default", role: "viewer", expiresIn: 3600 }, ["expiresIn: 3600"]],
    [{ name: "x", app: "default", role: "viewer", token: "mine" }, ['token: "mine"']],
    [[], [": a list of 0"]],
  ])("refuses %j, field by field", async (body, faults) => {
    const { call } = shared();
    const answer = await call("POST", "/tokens", { body });
    expect([answer.status, answer.body.code]).toEqual([400, "invalid-request"]);
    const reported = answer.body.errors.map(({ path, got }: { path: string; got: string }) => `${path}: ${got}`);
    expect(reported.sort()).toEqual(faults);
    expect((await call("GET", "/tokens")).body.tokens).toHaveLength(2);
  });

  it("refuses a missing body, and an app that does not exist", async () => {
    const { call } = shared();
    expect((await call("POST", "/tokens")).body.errors).toEqual([{ path: "", expected: "an object", got: "nothing" }]);
    const none = await call("POST", "/tokens", { body: { name: "x", app: "none", role: "caller" } });
    expect([none.status, none.body.code]).toEqual([404, "app-not-found"]);
  });

  it("stores only the token's hash", async () => {
    const running = await startControlPlane();
    const body = { name: "x", app: "default", role: "caller" };
    const { token } = (await running.call("POST", "/tokens", { body })).body;
    const text = await storedText(running);
    expect([text.includes(token), text.includes(sha256(token))]).toEqual([false, true]);
  });
});

describe("GET /tokens", () => {
  it("lists pages in the order of creation, and never a token or a hash", async () => {
    let time = nowMs;
    const { call } = await startControlPlane({}, { now: () => time++ });
    const secrets: string[] = [gatewayToken, sha256(gatewayToken)];
    for (const name of ["c", "a", "b"]) {
      const { body } = await call("POST", "/tokens", { body: { name, app: "default", role: "caller" } });
      secrets.push(body.token, sha256(body.token));
    }
    const first = (await call("GET", "/tokens?limit=2")).body;
    const second = (await call("GET", `/tokens?limit=3&after=${first.next}`)).body;
    const tokens = [...first.tokens, ...second.tokens];
    expect(tokens.map(({ name }) => name)).toEqual(["gateway", "environment", "c", "a", "b"]);
    expect(tokens[2]).toEqual({
      id: expect.any(String),
      name: "c",
      app: "default",
      role: "caller",
      lastFour: (secrets[2] as string).slice(-4),
      createdAt: expect.stringMatching(/^2027-/),
      expired: false,
    });
    expect(second).not.toHaveProperty("next");
    for (const secret of secrets) expect(JSON.stringify(tokens)).not.toContain(secret);
  });

  it("shows an expired token as such", async () => {
    let time = nowMs;
    const { call } = await startControlPlane({}, { now: () => time });
    time += 1_000;
    await call("POST", "/tokens", { body: { name: "x", app: "default", role: "caller", expiresIn: "1s" } });
    time += 1_000;
    expect((await call("GET", "/tokens")).body.tokens.at(-1)).toMatchObject({ name: "x", expired: true });
  });
});

describe("tokens of callers", () => {
  const caller = { name: "sms service", app: "default", role: "caller" };

  it("reach gateways as hashes, when they are made and when they are deleted", async () => {
    const running = await startControlPlane({}, { now: () => nowMs });
    const gateway = await connectGateway(running, "g1");
    expect((await gateway.next("snapshot")).callers).toEqual([]);
    const one = (await running.call("POST", "/tokens?wait=0s", { body: caller })).body;
    expect(one.revision).toBe(1);
    expect(await gateway.next("snapshot")).toMatchObject({
      revision: 1,
      callers: [{ app: "default", sha256: sha256(one.token) }],
    });
    const two = (await running.call("POST", "/tokens?wait=0s", { body: { ...caller, expiresIn: "1h" } })).body;
    const { name } = caller;
    const second = { app: "default", sha256: sha256(two.token), name, expiresAtSeconds: nowMs / 1_000 + 3_600 };
    expect((await gateway.next("snapshot")).callers).toContainEqual(second);
    expect((await running.call("DELETE", `/tokens/${one.id}?wait=0s`)).body.revision).toBe(3);
    expect(await gateway.next("snapshot")).toMatchObject({ revision: 3, callers: [second] });
    expect(JSON.stringify(gateway.received)).not.toContain(one.token);
  });

  it("are answered once every gateway has applied them, so that a token can be used at once", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    gateway.apply(await gateway.next("snapshot"));
    let isApplied = false;
    const applySoon = async () => {
      const snapshot = await gateway.next("snapshot");
      // An answer that does not wait comes earlier.
      await sleep(100);
      isApplied = true;
      gateway.apply(snapshot);
    };
    void applySoon();
    const made = await running.call("POST", "/tokens?wait=30s", { body: caller });
    expect([isApplied, made.status]).toEqual([true, 201]);
    expect(made.body).toMatchObject({ revision: 1, applied: { gateways: 1, acked: 1, refused: 0 } });
    isApplied = false;
    void applySoon();
    const deleted = await running.call("DELETE", `/tokens/${made.body.id}?wait=30s`);
    expect([isApplied, deleted.body]).toEqual([true, { revision: 2, applied: { gateways: 1, acked: 1, refused: 0 } }]);
  });

  it("are answered after a second if a gateway is dead, with the count of those that applied them", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "dead");
    gateway.apply(await gateway.next("snapshot"));
    const startedAtMs = performance.now();
    const { status, body } = await running.call("POST", "/tokens", { body: caller });
    const tookMs = performance.now() - startedAtMs;
    expect([status, body.applied]).toEqual([201, { gateways: 1, acked: 0, refused: 0 }]);
    expect(body.token).toMatch(/^sluice_call_/);
    expect(tookMs).toBeGreaterThan(900);
    expect(tookMs).toBeLessThan(roomMs);
  });

  it("are answered at once with ?wait=0s, or if no gateway is connected, and so are tokens of other roles", async () => {
    const running = await startControlPlane();
    const alone = await running.call("POST", "/tokens", { body: caller });
    expect(alone.body.applied).toEqual({ gateways: 0, acked: 0, refused: 0 });
    const gateway = await connectGateway(running, "dead");
    gateway.apply(await gateway.next("snapshot"));
    const waits = vi.spyOn(running.app.appliedWaits, "wait");
    const made = await running.call("POST", "/tokens?wait=0s", { body: caller });
    expect(made.body.applied).toEqual({ gateways: 1, acked: 0, refused: 0 });
    const deleted = await running.call("DELETE", `/tokens/${made.body.id}?wait=0s`);
    expect(deleted.body.applied).toEqual({ gateways: 1, acked: 0, refused: 0 });
    const viewer = await running.call("POST", "/tokens", { body: { ...caller, role: "viewer" } });
    expect(viewer.body).not.toHaveProperty("applied");
    // A wait of 0 ms is answered at once, and nobody else waits.
    expect(waits.mock.calls.map(([, waitMs]) => waitMs)).toEqual([0, 0]);
  });

  it("are left out of a snapshot once they have expired", async () => {
    let time = nowMs;
    const running = await startControlPlane({}, { now: () => time });
    await running.call("POST", "/tokens", { body: { ...caller, expiresIn: "1h" } });
    time += 3_600_000;
    await running.call("PUT", "/apps/shop");
    const gateway = await connectGateway(running, "g1");
    expect(await gateway.next("snapshot")).toMatchObject({ revision: 2, callers: [] });
  });

  it("are deleted with their app", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop");
    await running.call("POST", "/tokens", { body: { ...caller, app: "shop" } });
    await running.call("DELETE", "/apps/shop");
    const gateway = await connectGateway(running, "g1");
    expect(await gateway.next("snapshot")).toMatchObject({ revision: 3, callers: [] });
  });

  it("are waited for with ?wait, and appear in the history by name", async () => {
    const { call } = await startControlPlane();
    const { body } = await call("POST", "/tokens?wait=1s", { body: caller });
    expect(body).toMatchObject({ revision: 1, applied: { gateways: 0, acked: 0, refused: 0 } });
    await call("DELETE", `/tokens/${body.id}`);
    const { revisions } = (await call("GET", "/revisions")).body;
    expect(revisions.map(({ summary }: { summary: string }) => summary)).toEqual([
      "deleted caller token default/sms service",
      "created caller token default/sms service",
    ]);
  });

  it("are the only ones to make a revision: gateways never see the others", async () => {
    const { call } = await startControlPlane();
    const { body } = await call("POST", "/tokens", { body: { ...caller, role: "editor" } });
    expect(body).not.toHaveProperty("revision");
    expect((await call("DELETE", `/tokens/${body.id}`)).body).toEqual({});
    expect((await call("GET", "/revisions")).body.revisions).toEqual([]);
  });
});

describe("the tokens of the environment", () => {
  it("do not replace an app's tokens of the same name at the next start", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const first = await startControlPlane({ SLUICE_DATA_DIR });
    const body = { name: "environment", app: "default", role: "owner" };
    const { token } = (await first.call("POST", "/tokens", { body })).body;
    await first.stop();
    for (const environment of [{}, { SLUICE_ADMIN_TOKEN: "" }]) {
      const next = await startControlPlane({ SLUICE_DATA_DIR, ...environment });
      expect((await next.call("GET", "/apps/default", { token })).status).toBe(200);
      await next.stop();
    }
  });

  it("are made anew when only admins of single apps are left", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const first = await startControlPlane({ SLUICE_DATA_DIR });
    await first.call("POST", "/tokens", { body: { name: "x", app: "default", role: "owner" } });
    await first.stop();
    const next = await startControlPlane({ SLUICE_DATA_DIR, SLUICE_ADMIN_TOKEN: "" });
    expect((await next.call("GET", "/tokens", { token: next.firstAdminToken })).status).toBe(200);
  });
});
