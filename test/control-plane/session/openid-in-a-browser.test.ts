// What a browser sees of a sign-in by OpenID Connect, and a provider that does not answer.

import { describe, expect, it } from "vitest";
import { Browser } from "../../fixtures/clients/browser.ts";
import { startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { clientId } from "../../fixtures/servers/openid-provider.ts";
import { answer, audit, begin, signIn, startWorld, upToCallback, who } from "../../fixtures/servers/openid-world.ts";

const minuteMs = 60_000;

describe("a sign-in by OpenID Connect", () => {
  it("sends the browser with PKCE, state and nonce, and keeps a cookie that comes back from another site", async () => {
    const world = await startWorld();
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
    const world = await startWorld({ settings: { SLUICE_PUBLIC_URL: "https://sluice.test" } });
    const { headers } = await begin(world, new Browser(), "/session/oidc", () => true);
    const [cookie = ""] = headers.getSetCookie();
    expect(cookie).toMatch(/^__Host-sluice-sign-in-/);
    expect(cookie.split("; ")).toContain("Secure");
  });

  it("takes the groups from the id token, if they are there", async () => {
    const world = await startWorld({ claimsInToken: true });
    const { browser } = await signIn(world, "bob");
    expect(await who(world, browser)).toMatchObject({ who: "bob", roles: { shop: "owner" } });
  });

  it("of an admin's group gives every right", async () => {
    const world = await startWorld();
    const { browser } = await signIn(world, "root");
    const { admin, csrfToken } = await who(world, browser);
    expect(admin).toBe(true);
    const headers = { "x-csrf-token": csrfToken };
    const made = await browser.send(`${world.url}/api/v1/apps/new`, { method: "PUT", headers });
    expect(made.status).toBe(201);
  });

  it("may be under way in two windows", async () => {
    const world = await startWorld();
    const browser = new Browser();
    const callbacks = [await upToCallback(world, browser, "ann"), await upToCallback(world, browser, "ann")];
    for (const callback of callbacks) expect((await answer(world, browser, callback)).text).toContain("Signed in");
    expect((await who(world, browser)).status).toBe(200);
  });
});

it("strangers who fail to sign in fill the audit trail with no more than 100 entries a minute", async () => {
  const world = await startWorld();
  for (let i = 0; i < 120; i++) await world.call("GET", "/session/oidc/callback?state=x", { token: undefined });
  const count = async () => (await world.call("GET", "/audit?action=refuse-sign-in&limit=1000")).body.entries.length;
  expect(await count()).toBe(100);
  world.passTime(minuteMs);
  await world.call("GET", "/session/oidc/callback?state=x", { token: undefined });
  expect(await count()).toBe(101);
});

describe("a provider that does not answer", () => {
  it("does not keep the control plane from starting; signing in works when it is back", async () => {
    const world = await startWorld({ isDown: true });
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
    const world = await startWorld();
    const browser = new Browser();
    const callback = await upToCallback(world, browser, "ann");
    await world.provider.stop();
    const page = await answer(world, browser, callback);
    expect([page.status, page.text]).toEqual([503, expect.stringContaining("does not answer")]);
  });

  it("as the issuer that the operator has set is reported, and the audit trail says what it is", async () => {
    const world = await startWorld();
    const issuer = world.provider.issuer.replace("localhost", "127.0.0.1");
    const other = await startWorld({ settings: { SLUICE_OIDC_ISSUER: issuer } });
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
    const world = await startWorld({ isDown: true });
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
