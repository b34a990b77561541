// Members who sign in by OpenID Connect, at a real provider.

import { describe, expect, it } from "vitest";
import { Browser } from "../../fixtures/clients/browser.ts";
import { startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { signInAtProvider } from "../../fixtures/servers/openid-provider.ts";
import {
  answer,
  audit,
  begin,
  isCallback,
  people,
  signIn,
  startWorld,
  who,
} from "../../fixtures/servers/openid-world.ts";

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

describe("a sign-in by OpenID Connect", () => {
  it("makes a member of the person, with the rights of their groups, and goes on to where they wanted", async () => {
    const world = await startWorld();
    const browser = new Browser();
    const page = await begin(world, browser, "/session/oidc?returnTo=/apps%3Fa%3D1%26b%3D2");
    expect(new URL(page.url).origin).toBe(world.provider.issuer);
    const callback = await signInAtProvider(browser, page, "ann", isCallback);
    const last = await answer(world, browser, callback.url);
    expect(last.status).toBe(200);
    expect(last.text).toContain('<meta http-equiv="refresh" content="0; url=/apps?a=1&amp;b=2">');
    expect(last.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(await who(world, browser)).toMatchObject({
      status: 200,
      who: "ann@example.com",
      member: "ann@example.com",
      admin: false,
      roles: { shop: "editor", bank: "viewer" },
      signedInBy: "openid",
      endsAt: "2026-11-24T00:00:00.000Z",
    });
    expect((await world.call("GET", "/members/ann@example.com")).body).toMatchObject({
      createdBy: "ann@example.com",
      signsInByOpenId: true,
      roles: {},
      groups: ["shop-dev"],
      rolesByGroups: { shop: "editor", bank: "viewer" },
      adminByGroups: false,
    });
    const [entry, ...others] = await audit(world, "sign-in");
    expect(others).toEqual([]);
    expect(entry).toMatchObject({
      who: "ann@example.com",
      from: "127.0.0.1",
      at: "2026-11-23T12:00:00.000Z",
      after: { by: "openid", groups: ["shop-dev"] },
    });
    const names = (await browser.jar.getCookies(world.url)).map(({ key }) => key);
    expect(names.filter((name) => name.startsWith("sluice-"))).toEqual(["sluice-session"]);
  });

  it("ends when the person signs out, or after the time that the operator has set", async () => {
    const world = await startWorld({ settings: { SLUICE_SESSION_HOURS: "2", SLUICE_SESSION_IDLE_MINUTES: "600" } });
    const { browser } = await signIn(world, "ann");
    const thief = await browser.copy();
    const headers = { "x-csrf-token": (await who(world, browser)).csrfToken };
    const out = await browser.send(`${world.url}/api/v1/session`, { method: "DELETE", headers });
    expect(out.status).toBe(200);
    expect([(await who(world, browser)).status, (await who(world, thief)).status]).toEqual([401, 401]);
    expect(await audit(world, "sign-out")).toMatchObject([{ who: "ann@example.com", from: "127.0.0.1" }]);
    const again = (await signIn(world, "ann")).browser;
    world.passTime(119 * minuteMs);
    expect((await who(world, again)).status).toBe(200);
    world.passTime(minuteMs);
    expect((await who(world, again)).status).toBe(401);
  });
});

describe("the groups of a member", () => {
  it("are those of the last sign-in, and add up with roles that were set by hand", async () => {
    const world = await startWorld();
    await signIn(world, "ann");
    const body = { roles: { shop: "viewer", bank: "owner" } };
    expect((await world.call("PATCH", "/members/ann@example.com", { body })).body.roles).toEqual(body.roles);
    const { browser } = await signIn(world, "ann");
    expect((await who(world, browser)).roles).toEqual({ shop: "editor", bank: "owner" });
    world.provider.accounts["ann"] = { ...people["ann"], groups: ["the shop, all"] };
    const again = (await signIn(world, "ann")).browser;
    expect((await who(world, again)).roles).toEqual({ shop: "viewer", bank: "owner" });
    expect((await who(world, browser)).roles).toEqual({ shop: "viewer", bank: "owner" });
    const { body: member } = await world.call("GET", "/members/ann@example.com");
    expect(member).toMatchObject({ roles: body.roles, groups: ["the shop, all"], rolesByGroups: { shop: "viewer" } });
  });

  it("are shown to owners of an app as far as they concern it", async () => {
    const world = await startWorld();
    await signIn(world, "ann");
    await signIn(world, "bob");
    await signIn(world, "root");
    const made = await world.call("POST", "/tokens", { body: { name: "x", app: "bank", role: "owner" } });
    const { members } = (await world.call("GET", "/members", { token: made.body.token })).body;
    expect(members).toMatchObject([
      { name: "ann@example.com", groups: ["shop-dev"], rolesByGroups: { bank: "viewer" } },
    ]);
    expect((await world.call("GET", "/members/bob", { token: made.body.token })).status).toBe(404);
  });

  it("give a member's own tokens nothing any more, 30 days after the last sign-in", async () => {
    const world = await startWorld();
    await signIn(world, "ann");
    const body = { name: "laptop", member: "ann@example.com" };
    const { token } = (await world.call("POST", "/tokens", { body })).body;
    const rights = async () => (await world.call("GET", "/session", { token })).body.roles;
    world.passTime(30 * dayMs - 1);
    expect(await rights()).toEqual({ shop: "editor", bank: "viewer" });
    world.passTime(1);
    expect(await rights()).toEqual({});
    await signIn(world, "ann");
    expect(await rights()).toEqual({ shop: "editor", bank: "viewer" });
  });

  it("count by the mapping of now", async () => {
    const world = await startWorld();
    await signIn(world, "ann");
    const { token } = (await world.call("POST", "/tokens", { body: { name: "x", member: "ann@example.com" } })).body;
    await world.stop();
    const { dataDir, app } = world;
    expect(app.groupMapping.size).toBe(4);
    const later = await startControlPlane(
      { SLUICE_DATA_DIR: dataDir },
      { now: () => Date.parse("2026-11-23T12:01:00Z") },
    );
    expect((await later.call("GET", "/session", { token })).body).toMatchObject({ admin: false, roles: {} });
  });
});

describe("a person", () => {
  it("none of whose groups gives rights is told so, and is no member", async () => {
    const world = await startWorld();
    const { browser, page } = await signIn(world, "eve");
    expect(page.status).toBe(403);
    expect(page.headers.get("content-type")).toContain("text/html");
    expect(page.text).toContain(
      "You are &quot;eve@example.com&quot; there, but none of your groups gives rights here.",
    );
    expect((await who(world, browser)).status).toBe(401);
    expect((await world.call("GET", "/members")).body.members).toEqual([]);
    expect(await audit(world, "refuse-sign-in")).toMatchObject([
      { who: "eve@example.com", from: "127.0.0.1", after: { by: "openid", reason: "no group that gives rights" } },
    ]);
  });

  it("who has left all groups loses what they gave, and their sessions", async () => {
    const world = await startWorld();
    const { browser } = await signIn(world, "ann");
    const { token } = (await world.call("POST", "/tokens", { body: { name: "x", member: "ann@example.com" } })).body;
    world.provider.accounts["ann"] = { preferred_username: "ann@example.com" };
    expect((await signIn(world, "ann")).page.status).toBe(403);
    expect((await who(world, browser)).status).toBe(401);
    expect((await world.call("GET", "/session", { token })).body.roles).toEqual({});
    expect(await audit(world, "refuse-sign-in")).toMatchObject([{ who: "ann@example.com" }]);
  });

  it("who is disabled is refused, at once and at a sign-in", async () => {
    const world = await startWorld();
    const { browser } = await signIn(world, "ann");
    await world.call("PATCH", "/members/ann@example.com", { body: { disabled: true } });
    expect((await who(world, browser)).status).toBe(401);
    const { page } = await signIn(world, "ann");
    expect([page.status, page.text]).toEqual([403, expect.stringContaining("is disabled")]);
    expect(await audit(world, "refuse-sign-in")).toMatchObject([
      { who: "ann@example.com", after: { reason: 'The member "ann@example.com" is disabled.' } },
    ]);
  });

  it("is known by the subject: another name at the provider changes nothing", async () => {
    const world = await startWorld();
    await signIn(world, "ann");
    world.provider.accounts["ann"] = { ...people["ann"], preferred_username: "ann-smith" };
    const { browser } = await signIn(world, "ann");
    expect((await who(world, browser)).who).toBe("ann@example.com");
  });

  it("cannot become a member whom somebody else has made, by having the same name", async () => {
    const world = await startWorld();
    await world.call("POST", "/members", { body: { name: "ann@example.com", admin: true } });
    const { browser, page } = await signIn(world, "ann");
    expect([page.status, page.text]).toEqual([403, expect.stringContaining("already a member")]);
    expect((await who(world, browser)).status).toBe(401);
    expect(await audit(world, "refuse-sign-in")).toMatchObject([{ who: "ann@example.com" }]);
  });

  it("of another subject with the same name at the provider is somebody else", async () => {
    const world = await startWorld();
    await signIn(world, "ann");
    world.provider.accounts["ann2"] = { ...people["ann"] };
    expect((await signIn(world, "ann2")).page.status).toBe(403);
  });
});
