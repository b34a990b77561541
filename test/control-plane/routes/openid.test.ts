// Members who sign in by OpenID Connect, at a real provider.

import { describe, expect, it } from "vitest";
import { Browser } from "../../fixtures/clients/browser.ts";
import { shared, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { signInAtProvider } from "../../fixtures/servers/openid-provider.ts";
import {
  answer,
  audit,
  begin,
  isCallback,
  signIn,
  startWorld,
  type World,
  who,
} from "../../fixtures/servers/openid-world.ts";

const worldOfAll = shared((cleanUp) => startWorld({}, cleanUp));
let newcomers = 0;

/** Somebody who has an account at the provider, and is no member yet. */
function newcomer({ provider }: World, groups: readonly string[]): { account: string; name: string } {
  newcomers += 1;
  const [account, name] = [`account-${newcomers}`, `p${newcomers}@example.com`];
  provider.accounts[account] = { preferred_username: name, groups };
  return { account, name };
}

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
    const world = worldOfAll();
    const ann = newcomer(world, ["shop-dev", "tennis"]);
    await signIn(world, ann.account);
    const body = { roles: { shop: "viewer", bank: "owner" } };
    expect((await world.call("PATCH", `/members/${ann.name}`, { body })).body.roles).toEqual(body.roles);
    const { browser } = await signIn(world, ann.account);
    expect((await who(world, browser)).roles).toEqual({ shop: "editor", bank: "owner" });
    world.provider.accounts[ann.account] = { preferred_username: ann.name, groups: ["the shop, all"] };
    const again = (await signIn(world, ann.account)).browser;
    expect((await who(world, again)).roles).toEqual({ shop: "viewer", bank: "owner" });
    expect((await who(world, browser)).roles).toEqual({ shop: "viewer", bank: "owner" });
    const { body: member } = await world.call("GET", `/members/${ann.name}`);
    expect(member).toMatchObject({ roles: body.roles, groups: ["the shop, all"], rolesByGroups: { shop: "viewer" } });
  });

  it("are shown to owners of an app as far as they concern it", async () => {
    const world = worldOfAll();
    const ann = newcomer(world, ["shop-dev", "tennis"]);
    const [bob, root] = [newcomer(world, ["shop-lead"]), newcomer(world, ["platform"])];
    for (const { account } of [ann, bob, root]) await signIn(world, account);
    const made = await world.call("POST", "/tokens", { body: { name: "x", app: "bank", role: "owner" } });
    const { members } = (await world.call("GET", "/members", { token: made.body.token })).body;
    const seen = members.filter(({ name }: { name: string }) => [ann, bob, root].some((one) => one.name === name));
    expect(seen).toMatchObject([{ name: ann.name, groups: ["shop-dev"], rolesByGroups: { bank: "viewer" } }]);
    expect((await world.call("GET", `/members/${bob.name}`, { token: made.body.token })).status).toBe(404);
  });

  it("give a member's own tokens nothing any more, 30 days after the last sign-in", async () => {
    const world = worldOfAll();
    const ann = newcomer(world, ["shop-dev", "tennis"]);
    await signIn(world, ann.account);
    const body = { name: "laptop", member: ann.name };
    const { token } = (await world.call("POST", "/tokens", { body })).body;
    const rights = async () => (await world.call("GET", "/session", { token })).body.roles;
    world.passTime(30 * dayMs - 1);
    expect(await rights()).toEqual({ shop: "editor", bank: "viewer" });
    world.passTime(1);
    expect(await rights()).toEqual({});
    await signIn(world, ann.account);
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
    const world = worldOfAll();
    const eve = newcomer(world, ["tennis"]);
    const { browser, page } = await signIn(world, eve.account);
    expect(page.status).toBe(403);
    expect(page.headers.get("content-type")).toContain("text/html");
    expect(page.text).toContain(
      `The OpenID provider knows you as &quot;${eve.name}&quot;, but none of your groups there gives rights here.`,
    );
    expect((await who(world, browser)).status).toBe(401);
    expect((await world.call("GET", `/members/${eve.name}`)).status).toBe(404);
    expect(await audit(world, `refuse-sign-in&who=${eve.name}`)).toMatchObject([
      { who: eve.name, from: "127.0.0.1", after: { by: "openid", reason: "no group that gives rights" } },
    ]);
  });

  it("who has left all groups loses what they gave, and their sessions", async () => {
    const world = worldOfAll();
    const ann = newcomer(world, ["shop-dev", "tennis"]);
    const { browser } = await signIn(world, ann.account);
    const { token } = (await world.call("POST", "/tokens", { body: { name: "x", member: ann.name } })).body;
    world.provider.accounts[ann.account] = { preferred_username: ann.name };
    expect((await signIn(world, ann.account)).page.status).toBe(403);
    expect((await who(world, browser)).status).toBe(401);
    expect((await world.call("GET", "/session", { token })).body.roles).toEqual({});
    expect(await audit(world, `refuse-sign-in&who=${ann.name}`)).toHaveLength(1);
  });

  it("who is disabled is refused, at once and at a sign-in", async () => {
    const world = worldOfAll();
    const ann = newcomer(world, ["shop-dev", "tennis"]);
    const { browser } = await signIn(world, ann.account);
    await world.call("PATCH", `/members/${ann.name}`, { body: { disabled: true } });
    expect((await who(world, browser)).status).toBe(401);
    const { page } = await signIn(world, ann.account);
    expect([page.status, page.text]).toEqual([403, expect.stringContaining("is disabled")]);
    expect(await audit(world, `refuse-sign-in&who=${ann.name}`)).toMatchObject([
      { after: { reason: `The member "${ann.name}" is disabled.` } },
    ]);
  });

  it("is known by the subject: another name at the provider changes nothing", async () => {
    const world = worldOfAll();
    const ann = newcomer(world, ["shop-dev", "tennis"]);
    await signIn(world, ann.account);
    world.provider.accounts[ann.account] = { preferred_username: "ann-smith", groups: ["shop-dev"] };
    const { browser } = await signIn(world, ann.account);
    expect((await who(world, browser)).who).toBe(ann.name);
  });

  it("cannot become a member whom somebody else has made, by having the same name", async () => {
    const world = worldOfAll();
    const ann = newcomer(world, ["shop-dev", "tennis"]);
    await world.call("POST", "/members", { body: { name: ann.name, admin: true } });
    const { browser, page } = await signIn(world, ann.account);
    expect([page.status, page.text]).toEqual([403, expect.stringContaining("already a member")]);
    expect((await who(world, browser)).status).toBe(401);
    // The member of this name has not tried to sign in.
    expect(await audit(world, `refuse-sign-in&subject=${ann.name}`)).toMatchObject([{ who: "unknown" }]);
  });

  it("of another subject with the same name at the provider is somebody else", async () => {
    const world = worldOfAll();
    const ann = newcomer(world, ["shop-dev", "tennis"]);
    await signIn(world, ann.account);
    const other = newcomer(world, ["shop-dev"]);
    world.provider.accounts[other.account] = { preferred_username: ann.name, groups: ["shop-dev"] };
    expect((await signIn(world, other.account)).page.status).toBe(403);
  });

  it("who is disabled is refused under their own name, whatever their name at the provider is now", async () => {
    const world = worldOfAll();
    const [ann, bob] = [newcomer(world, ["shop-dev"]), newcomer(world, ["shop-dev"])];
    for (const { account } of [ann, bob]) await signIn(world, account);
    await world.call("PATCH", `/members/${bob.name}`, { body: { disabled: true } });
    world.provider.accounts[bob.account] = { preferred_username: ann.name, groups: ["shop-dev"] };
    expect((await signIn(world, bob.account)).page.status).toBe(403);
    expect(await audit(world, `refuse-sign-in&who=${ann.name}`)).toEqual([]);
    expect(await audit(world, `refuse-sign-in&who=${bob.name}`)).toHaveLength(1);
  });

  it("cannot have the name by which the history knows an admin's token", async () => {
    const world = worldOfAll();
    const { account } = newcomer(world, ["shop-dev"]);
    world.provider.accounts[account] = { preferred_username: "first-admin", groups: ["shop-dev"] };
    const { page } = await signIn(world, account);
    expect([page.status, page.text]).toEqual([403, expect.stringContaining("how the history names somebody else")]);
    expect(await audit(world, "refuse-sign-in&who=first-admin")).toEqual([]);
  });

  it("is known by the whole subject, also to databases that take it for equal without spaces at its end", async () => {
    const world = await startWorld({ claimsInToken: true });
    await signIn(world, "ann");
    const statusWith = async (sub: string) => {
      world.provider.forge = (claims, sign) => sign({ ...claims, sub, preferred_username: "eve" });
      const { browser, page } = await signIn(world, "ann");
      return [page.status, (await who(world, browser)).who];
    };
    expect(await statusWith("ann")).toEqual([200, "ann@example.com"]);
    expect(await statusWith("ann ")).toEqual([200, "eve"]);
    // Not every database could store these.
    expect(await statusWith("a".repeat(256))).toEqual([401, undefined]);
    expect(await statusWith("a\u0000b")).toEqual([401, undefined]);
  });
});

it("an owner does not take the name of somebody who has not signed in yet, and gives roles to those who have", async () => {
  const world = await startWorld();
  const { token } = (await world.call("POST", "/tokens", { body: { name: "o", app: "shop", role: "owner" } })).body;
  const body = { name: "ann@example.com", roles: { shop: "viewer" } };
  const refused = await world.call("POST", "/members", { token, body });
  expect([refused.status, refused.body.code]).toEqual([403, "forbidden"]);
  const { browser } = await signIn(world, "ann");
  expect(await who(world, browser)).toMatchObject({ who: "ann@example.com" });
  const given = await world.call("PATCH", "/members/ann@example.com", { token, body: { roles: { shop: "owner" } } });
  expect([given.status, given.body.roles]).toEqual([200, { shop: "owner" }]);
  expect((await world.call("POST", "/members", { body: { ...body, name: "new" } })).status).toBe(201);
});
