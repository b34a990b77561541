// Signing in by OpenID Connect, at a real provider.

import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { Browser, type Page } from "../../fixtures/clients/browser.ts";
import { type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import {
  type Account,
  asAnotherClient,
  clientId,
  clientSecret,
  type Forge,
  type OpenIdProviderUnderTest,
  signed,
  signInAtProvider,
  startOpenIdProvider,
} from "../../fixtures/servers/openid-provider.ts";

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

const mapping =
  "platform=admin,shop-dev=shop:editor,shop-dev=bank:viewer,shop-lead=shop:owner,the shop%2C all=shop:viewer";
const people: Record<string, Account> = {
  ann: { groups: ["shop-dev", "tennis"], preferred_username: "Ann@Example.com" },
  bob: { groups: ["shop-lead"] },
  eve: { groups: ["tennis"], email: "eve@example.com" },
  root: { groups: ["platform"] },
};

interface World extends Running {
  readonly provider: OpenIdProviderUnderTest;
  passTime(ms: number): void;
}

interface Options {
  readonly settings?: Record<string, string>;
  readonly claimsInToken?: boolean;
  /** Whether the provider does not run when the control plane starts. */
  readonly isDown?: boolean;
}

async function start({ settings = {}, claimsInToken = false, isDown = false }: Options = {}): Promise<World> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const redirectUri = `${settings["SLUICE_PUBLIC_URL"] ?? url}/api/v1/session/oidc/callback`;
  const provider = await startOpenIdProvider({ redirectUri, accounts: people, claimsInToken });
  if (isDown) await provider.stop();
  let nowMs = Date.parse("2026-11-23T12:00:00Z");
  const environment = {
    SLUICE_CONTROL_PORT: String(port),
    SLUICE_PUBLIC_URL: url,
    SLUICE_OIDC_ISSUER: provider.issuer,
    SLUICE_OIDC_CLIENT_ID: clientId,
    SLUICE_OIDC_CLIENT_SECRET: clientSecret,
    SLUICE_OIDC_SCOPES: "openid profile email groups",
    SLUICE_OIDC_GROUPS: mapping,
    ...settings,
  };
  const running = await startControlPlane(environment, { now: () => nowMs });
  for (const app of ["shop", "bank"]) await running.call("PUT", `/apps/${app}`, { body: { realm: {} } });
  return {
    ...running,
    provider,
    passTime(ms) {
      nowMs += ms;
    },
  };
}

const isCallback = ({ pathname }: URL) => pathname === "/api/v1/session/oidc/callback";

function begin({ url }: World, browser: Browser, path = "/session/oidc", stop?: (next: URL) => boolean): Promise<Page> {
  return browser.open(`${url}/api/v1${path}`, stop === undefined ? {} : { stop });
}

/** Goes as far as the provider's answer, which is not opened. @returns the URL of the callback */
async function upToCallback(world: World, browser: Browser, name: string): Promise<string> {
  const { url } = await signInAtProvider(
    browser,
    await begin(world, browser, "/session/oidc", isCallback),
    name,
    isCallback,
  );
  return url;
}

/** Opens the provider's answer, as a redirect of the provider does. */
function answer(world: World, browser: Browser, callback: string): Promise<Page> {
  return browser.open(callback, { from: new URL(world.provider.issuer) });
}

async function signIn(world: World, name: string, browser = new Browser()): Promise<{ browser: Browser; page: Page }> {
  return { browser, page: await answer(world, browser, await upToCallback(world, browser, name)) };
}

async function who({ url }: World, browser: Browser) {
  const { status, text } = await browser.send(`${url}/api/v1/session`);
  return { status, ...JSON.parse(text) };
}

async function audit({ call }: Running, action: string) {
  return (await call("GET", `/audit?action=${action}`)).body.entries;
}

describe("a sign-in by OpenID Connect", () => {
  it("makes a member of the person, with the rights of their groups, and goes on to where they wanted", async () => {
    const world = await start();
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

  it("sends the browser with PKCE, state and nonce, and keeps a cookie that comes back from another site", async () => {
    const world = await start();
    const browser = new Browser();
    const page = await begin(world, browser, "/session/oidc", () => true);
    expect(page.status).toBe(302);
    const sent = new URL(page.url).searchParams;
    expect(Object.fromEntries(sent)).toMatchObject({
      response_type: "code",
      client_id: clientId,
      redirect_uri: `${world.url}/api/v1/session/oidc/callback`,
      scope: "openid profile email groups",
      code_challenge_method: "S256",
    });
    for (const name of ["state", "nonce", "code_challenge"]) expect(sent.get(name)).toMatch(/^[\w-]{43}$/);
    const [cookie = ""] = page.headers.getSetCookie();
    expect(cookie.split("; ").slice(1).sort()).toEqual(["HttpOnly", "Max-Age=600", "Path=/", "SameSite=Lax"]);
  });

  it("behind TLS, keeps only cookies that no other host can set", async () => {
    const world = await start({ settings: { SLUICE_PUBLIC_URL: "https://sluice.test" } });
    const { headers } = await begin(world, new Browser(), "/session/oidc", () => true);
    const [cookie = ""] = headers.getSetCookie();
    expect(cookie).toMatch(/^__Host-sluice-sign-in-/);
    expect(cookie.split("; ")).toContain("Secure");
  });

  it("takes the groups from the id token, if they are there", async () => {
    const world = await start({ claimsInToken: true });
    const { browser } = await signIn(world, "bob");
    expect(await who(world, browser)).toMatchObject({ who: "bob", roles: { shop: "owner" } });
  });

  it("of an admin's group gives every right", async () => {
    const world = await start();
    const { browser } = await signIn(world, "root");
    const { admin, csrfToken } = await who(world, browser);
    expect(admin).toBe(true);
    const headers = { "x-csrf-token": csrfToken };
    const made = await browser.send(`${world.url}/api/v1/apps/new`, { method: "PUT", headers });
    expect(made.status).toBe(201);
  });

  it("may be under way in two windows", async () => {
    const world = await start();
    const browser = new Browser();
    const callbacks = [await upToCallback(world, browser, "ann"), await upToCallback(world, browser, "ann")];
    for (const callback of callbacks) expect((await answer(world, browser, callback)).text).toContain("Signed in");
    expect((await who(world, browser)).status).toBe(200);
  });

  it("ends when the person signs out, or after the time that the operator has set", async () => {
    const world = await start({ settings: { SLUICE_SESSION_HOURS: "2", SLUICE_SESSION_IDLE_MINUTES: "600" } });
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
    const world = await start();
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
    const world = await start();
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
    const world = await start();
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
    const world = await start();
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
    const world = await start();
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
    const world = await start();
    const { browser } = await signIn(world, "ann");
    const { token } = (await world.call("POST", "/tokens", { body: { name: "x", member: "ann@example.com" } })).body;
    world.provider.accounts["ann"] = { preferred_username: "ann@example.com" };
    expect((await signIn(world, "ann")).page.status).toBe(403);
    expect((await who(world, browser)).status).toBe(401);
    expect((await world.call("GET", "/session", { token })).body.roles).toEqual({});
    expect(await audit(world, "refuse-sign-in")).toMatchObject([{ who: "ann@example.com" }]);
  });

  it("who is disabled is refused, at once and at a sign-in", async () => {
    const world = await start();
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
    const world = await start();
    await signIn(world, "ann");
    world.provider.accounts["ann"] = { ...people["ann"], preferred_username: "ann-smith" };
    const { browser } = await signIn(world, "ann");
    expect((await who(world, browser)).who).toBe("ann@example.com");
  });

  it("cannot become a member whom somebody else has made, by having the same name", async () => {
    const world = await start();
    await world.call("POST", "/members", { body: { name: "ann@example.com", admin: true } });
    const { browser, page } = await signIn(world, "ann");
    expect([page.status, page.text]).toEqual([403, expect.stringContaining("already a member")]);
    expect((await who(world, browser)).status).toBe(401);
    expect(await audit(world, "refuse-sign-in")).toMatchObject([{ who: "ann@example.com" }]);
  });

  it("of another subject with the same name at the provider is somebody else", async () => {
    const world = await start();
    await signIn(world, "ann");
    world.provider.accounts["ann2"] = { ...people["ann"] };
    expect((await signIn(world, "ann2")).page.status).toBe(403);
  });
});

describe("an answer of the provider is refused", () => {
  /** Nobody is signed in, the browser sees a page, and the audit trail has the reason. */
  async function expectRefused(world: World, browser: Browser, page: Page, reason: RegExp): Promise<void> {
    expect(page.status).toBe(401);
    expect(page.text).toContain("<h1>Sign-in failed</h1>");
    expect((await who(world, browser)).status).toBe(401);
    expect((await world.call("GET", "/members")).body.members).toEqual([]);
    const [entry] = await audit(world, "refuse-sign-in");
    expect(entry).toMatchObject({ who: "unknown", from: "127.0.0.1" });
    expect(entry.after.reason).toMatch(reason);
  }

  it.each([
    ["another state", (state: string) => [...state].reverse().join(""), /no cookie of the sign-in/],
    ["a state that begins in the same way", (state: string) => `${state.slice(0, 20)}${"A".repeat(23)}`, /state/],
    ["an empty state", () => "", /no cookie of the sign-in/],
    ["no state", () => undefined, /no cookie of the sign-in/],
  ])("with %s", async (_, forged, reason) => {
    const world = await start();
    const browser = new Browser();
    const callback = new URL(await upToCallback(world, browser, "ann"));
    const state = forged(callback.searchParams.get("state") ?? "");
    if (state === undefined) callback.searchParams.delete("state");
    else callback.searchParams.set("state", state);
    await expectRefused(world, browser, await answer(world, browser, callback.href), reason);
  });

  it.each([
    ["code", "code=x", /the provider answered invalid_grant/],
    ["issuer", "iss=https%3A%2F%2Fevil.example", /iss/],
  ])("with another %s", async (name, forged, reason) => {
    const world = await start();
    const browser = new Browser();
    const callback = await upToCallback(world, browser, "ann");
    const url = callback.replace(new RegExp(`${name.slice(0, 3)}[a-z]*=[^&]*`), forged);
    expect(url).not.toBe(callback);
    await expectRefused(world, browser, await answer(world, browser, url), reason);
  });

  it("in a browser that has not begun the sign-in, as when somebody sends a link to sign others in as themselves", async () => {
    const world = await start();
    const callback = await upToCallback(world, new Browser(), "ann");
    const victim = new Browser();
    await begin(world, victim);
    await expectRefused(world, victim, await answer(world, victim, callback), /no cookie of the sign-in/);
  });

  it("with a cookie that we did not sign", async () => {
    const world = await start();
    const browser = new Browser();
    const callback = await upToCallback(world, browser, "ann");
    const cookie = (await browser.jar.getCookies(world.url)).find(({ key }) => key.startsWith("sluice-sign-in-"));
    if (cookie === undefined) throw new Error("there is no cookie");
    const [text = "", signature = ""] = decodeURIComponent(cookie.value).split(".");
    const content = JSON.parse(Buffer.from(text, "base64url").toString());
    const forged = Buffer.from(JSON.stringify({ ...content, returnTo: "https://evil.example" })).toString("base64url");
    cookie.value = encodeURIComponent(`${forged}.${signature}`);
    await browser.jar.setCookie(cookie, world.url);
    await expectRefused(world, browser, await answer(world, browser, callback), /no cookie of the sign-in/);
  });

  it("after more than ten minutes", async () => {
    const world = await start();
    const browser = new Browser();
    const callback = await upToCallback(world, browser, "ann");
    world.passTime(10 * minuteMs);
    await expectRefused(world, browser, await answer(world, browser, callback), /no cookie of the sign-in/);
  });

  it("when it comes a second time: the cookie serves once, and so does the code", async () => {
    const world = await start();
    const browser = new Browser();
    const callback = await upToCallback(world, browser, "ann");
    const thief = await browser.copy();
    expect((await answer(world, browser, callback)).status).toBe(200);
    const again = await answer(world, browser, callback);
    expect(again.status).toBe(401);
    const replayed = await answer(world, thief, callback);
    expect(replayed.status).toBe(401);
    expect((await who(world, thief)).status).toBe(401);
    const reasons = (await audit(world, "refuse-sign-in")).map(
      ({ after }: { after: { reason: string } }) => after.reason,
    );
    expect(reasons.sort()).toEqual([
      "no cookie of the sign-in came with the answer",
      expect.stringContaining("the provider answered invalid_grant"),
    ]);
  });

  it("when the person has declined", async () => {
    const world = await start();
    const browser = new Browser();
    const login = await begin(world, browser);
    const [, abort] = /href="([^"]+\/abort)"/.exec(login.text) ?? [];
    const { url } = await browser.open(new URL(abort ?? "", login.url), { stop: isCallback });
    const page = await answer(world, browser, url);
    expect(page.text).toContain("the provider answered access_denied (End-User aborted interaction)");
    await expectRefused(world, browser, page, /access_denied/);
  });

  it("with a code that was given to another client", async () => {
    const world = await start();
    const browser = new Browser();
    const { url } = await begin(world, browser, "/session/oidc", () => true);
    const login = await browser.open(asAnotherClient(url));
    const callback = await signInAtProvider(browser, login, "ann", isCallback);
    await expectRefused(world, browser, await answer(world, browser, callback.url), /invalid_grant/);
  });

  const stranger = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  const nowSeconds = () => Math.floor(Date.now() / 1_000);
  const forgeries: [string, Forge, RegExp][] = [
    ["for another audience", (claims, sign) => sign({ ...claims, aud: "another-client" }), /"aud" \(audience\)/],
    [
      "for us and others, issued to another",
      (claims, sign) => sign({ ...claims, aud: [clientId, "x"], azp: "x" }),
      /"azp"/,
    ],
    ["of another issuer", (claims, sign) => sign({ ...claims, iss: "http://localhost:1" }), /"iss" \(issuer\)/],
    ["with another nonce", (claims, sign) => sign({ ...claims, nonce: "A".repeat(43) }), /"nonce"/],
    ["without a nonce", ({ nonce: _, ...claims }, sign) => sign(claims), /"nonce"/],
    ["without a subject", ({ sub: _, ...claims }, sign) => sign(claims), /"sub"/],
    ["that has expired", (claims, sign) => sign({ ...claims, exp: nowSeconds() - 60 }), /"exp" \(expiration time\)/],
    ["signed by another key", (claims) => signed(stranger, claims), /signature/i],
    ["that is not signed", (claims) => `${signed(stranger, claims, { alg: "none" }).replace(/\.[^.]+$/, ".")}`, /alg/i],
    [
      "whose claims were changed",
      (claims, sign) => {
        const [head, , signature] = sign(claims).split(".");
        const changed = Buffer.from(JSON.stringify({ ...claims, sub: "root" })).toString("base64url");
        return [head, changed, signature].join(".");
      },
      /signature/i,
    ],
    ["that is no token", () => "x.y.z", /./],
  ];

  it.each(forgeries)("with an id token %s", async (_, forge, reason) => {
    const world = await start();
    const browser = new Browser();
    const callback = await upToCallback(world, browser, "ann");
    world.provider.forge = forge;
    await expectRefused(world, browser, await answer(world, browser, callback), reason);
  });

  it("for these reasons alone: the same token, signed again with nothing changed, signs in", async () => {
    const world = await start();
    world.provider.forge = (claims, sign) => sign(claims);
    const { browser } = await signIn(world, "ann");
    expect((await who(world, browser)).status).toBe(200);
  });

  it("by JSON, if the client does not ask for a page", async () => {
    const world = await start();
    const got = await world.call("GET", "/session/oidc/callback?code=x&state=y", { token: undefined });
    expect([got.status, got.body.code]).toEqual([401, "sign-in-failed"]);
    expect(got.headers.get("content-type")).toContain("application/problem+json");
  });
});

it("strangers who fail to sign in fill the audit trail with no more than 100 entries a minute", async () => {
  const world = await start();
  for (let i = 0; i < 120; i++) await world.call("GET", "/session/oidc/callback?state=x", { token: undefined });
  const count = async () => (await world.call("GET", "/audit?action=refuse-sign-in&limit=1000")).body.entries.length;
  expect(await count()).toBe(100);
  world.passTime(minuteMs);
  await world.call("GET", "/session/oidc/callback?state=x", { token: undefined });
  expect(await count()).toBe(101);
});

describe("a provider that does not answer", () => {
  it("does not keep the control plane from starting; signing in works when it is back", async () => {
    const world = await start({ isDown: true });
    const refused = await world.call("GET", "/session/oidc", { token: undefined });
    expect([refused.status, refused.body.code]).toEqual([503, "sign-in-unavailable"]);
    expect(refused.headers.get("retry-after")).toBe("5");
    const page = await begin(world, new Browser(), "/session/oidc?returnTo=/apps");
    expect(page.status).toBe(503);
    expect(page.text).toContain('<a href="/api/v1/session/oidc?returnTo=%2Fapps">Sign in again</a>');
    await world.provider.start();
    expect((await signIn(world, "ann")).page.status).toBe(200);
  });

  it("any more when the code is to be exchanged is reported as such", async () => {
    const world = await start();
    const browser = new Browser();
    const callback = await upToCallback(world, browser, "ann");
    await world.provider.stop();
    const page = await answer(world, browser, callback);
    expect([page.status, page.text]).toEqual([503, expect.stringContaining("does not answer")]);
  });

  it("as the issuer that the operator has set is reported, and the audit trail says what it is", async () => {
    const world = await start();
    const issuer = world.provider.issuer.replace("localhost", "127.0.0.1");
    const other = await start({ settings: { SLUICE_OIDC_ISSUER: issuer } });
    const { status, body } = await other.call("GET", "/session/oidc", { token: undefined });
    expect([status, body.code]).toEqual([503, "sign-in-unavailable"]);
    const [entry] = await audit(other, "refuse-sign-in");
    expect(entry.after.reason).toMatch(/^discovery: .*issuer/);
  });
});

describe("where to go afterwards", () => {
  it.each([
    "//evil.example",
    "/\\evil.example",
    "https://evil.example/",
    "evil",
    "",
    "/a b",
    "/a\nb",
    "/\u00e9",
    `/${"a".repeat(1_000)}`,
  ])("cannot be %j", async (path) => {
    const world = await start({ isDown: true });
    const { status, body } = await world.call("GET", `/session/oidc?returnTo=${encodeURIComponent(path)}`);
    expect([status, body.code, body.errors?.[0].path]).toEqual([400, "invalid-request", "returnTo"]);
  });
});

it("without a provider, says that there is none", async () => {
  const { call } = await startControlPlane();
  for (const path of ["/session/oidc", "/session/oidc/callback?code=x&state=y"]) {
    const { status, body } = await call("GET", path, { token: undefined });
    expect([status, body.code]).toEqual([404, "openid-not-configured"]);
  }
});
