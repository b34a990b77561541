// Answers of an OpenID provider that sign nobody in: forged, replayed, for somebody else.

import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { Browser, type Page } from "../../fixtures/clients/browser.ts";
import { shared } from "../../fixtures/servers/control-plane-under-test.ts";
import {
  asAnotherClient,
  clientId,
  type Forge,
  signed,
  signInAtProvider,
} from "../../fixtures/servers/openid-provider.ts";
import {
  answer,
  audit,
  begin,
  isCallback,
  signIn,
  startWorld,
  upToCallback,
  type World,
  who,
} from "../../fixtures/servers/openid-world.ts";

const minuteMs = 60_000;

describe("an answer of the provider is refused", () => {
  const sharedWorld = shared((cleanUp) => startWorld({}, cleanUp));
  /** Each test has a second of its own, so that its entry of the audit trail is the newest. */
  const running = () => {
    const world = sharedWorld();
    world.passTime(1_000);
    return world;
  };

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
    const world = running();
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
    const world = running();
    const browser = new Browser();
    const callback = await upToCallback(world, browser, "ann");
    const url = callback.replace(new RegExp(`${name.slice(0, 3)}[a-z]*=[^&]*`), forged);
    expect(url).not.toBe(callback);
    await expectRefused(world, browser, await answer(world, browser, url), reason);
  });

  it("in a browser that has not begun the sign-in, as when somebody sends a link to sign others in as themselves", async () => {
    const world = running();
    const callback = await upToCallback(world, new Browser(), "ann");
    const victim = new Browser();
    await begin(world, victim);
    await expectRefused(world, victim, await answer(world, victim, callback), /no cookie of the sign-in/);
  });

  it("with a cookie that we did not sign", async () => {
    const world = running();
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
    const world = running();
    const browser = new Browser();
    const callback = await upToCallback(world, browser, "ann");
    world.passTime(10 * minuteMs);
    await expectRefused(world, browser, await answer(world, browser, callback), /no cookie of the sign-in/);
  });

  it("when it comes a second time: the cookie serves once, and so does the code", async () => {
    const world = await startWorld();
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
    const world = running();
    const browser = new Browser();
    const login = await begin(world, browser);
    const [, abort] = /href="([^"]+\/abort)"/.exec(login.text) ?? [];
    const { url } = await browser.open(new URL(abort ?? "", login.url), { stop: isCallback });
    const page = await answer(world, browser, url);
    expect(page.text).toContain("the provider answered access_denied (End-User aborted interaction)");
    await expectRefused(world, browser, page, /access_denied/);
  });

  it("with a code that was given to another client", async () => {
    const world = running();
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
    ["for us, issued to another", (claims, sign) => sign({ ...claims, azp: "x" }), /for another client/],
    ["with an empty subject", (claims, sign) => sign({ ...claims, sub: "" }), /subject is empty/],
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
    const world = running();
    const browser = new Browser();
    const callback = await upToCallback(world, browser, "ann");
    world.provider.forge = forge;
    const page = await answer(world, browser, callback);
    world.provider.forge = undefined;
    await expectRefused(world, browser, page, reason);
  });

  it("for these reasons alone: the same token, signed again with nothing changed, signs in", async () => {
    const world = await startWorld();
    world.provider.forge = (claims, sign) => sign(claims);
    const { browser } = await signIn(world, "ann");
    expect((await who(world, browser)).status).toBe(200);
  });

  it("without asking the provider, when too many of that address have failed", async () => {
    const settings = { SLUICE_FAILED_SIGN_IN_RATE: "1:3" };
    const world = await startWorld({ settings, surroundings: { uptimeMs: () => 0 } });
    const browser = new Browser();
    const callback = (await upToCallback(world, browser, "ann")).replace(/code=[^&]*/, "code=x");
    const statuses: number[] = [];
    // A copy has the cookie that serves once.
    for (let i = 0; i < 5; i++) statuses.push((await answer(world, await browser.copy(), callback)).status);
    expect(statuses).toEqual([401, 401, 401, 429, 429]);
    expect(await audit(world, "refuse-sign-in")).toHaveLength(3);
  });

  it("by JSON, if the client does not ask for a page", async () => {
    const world = running();
    const got = await world.call("GET", "/session/oidc/callback?code=x&state=y", { token: undefined });
    expect([got.status, got.body.code]).toEqual([401, "sign-in-failed"]);
    expect(got.headers.get("content-type")).toContain("application/problem+json");
  });
});
