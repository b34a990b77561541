// Signing in by a token, and the session that it begins.

import { describe, expect, it } from "vitest";
import { findCaller } from "../../../control-plane/src/storage/callers.ts";
import { signInByToken as storeSignIn } from "../../../control-plane/src/storage/sign-in.ts";
import { Browser } from "../../fixtures/clients/browser.ts";
import { ask, cookieOf, signInByToken } from "../../fixtures/clients/signed-in.ts";
import {
  adminToken,
  gatewayToken,
  onePerSecond,
  type Running,
  sharedControlPlane,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { databaseUrlFor, testDatabaseKind } from "../../fixtures/servers/test-database.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

interface Clock {
  now(): number;
  pass(ms: number): void;
}

function makeClock(): Clock {
  let nowMs = Date.parse("2026-11-23T12:00:00Z");
  return {
    now: () => nowMs,
    pass(ms) {
      nowMs += ms;
    },
  };
}

type World = Running & { readonly clock: Clock };

const shared = ((): (() => World) => {
  const clock = makeClock();
  const running = sharedControlPlane({}, { now: clock.now });
  return () => ({ ...running(), clock });
})();

async function start(settings: Record<string, string> = {}): Promise<World> {
  const clock = makeClock();
  return { ...(await startControlPlane(settings, { now: clock.now })), clock };
}

async function makeToken({ call }: Running, body: object): Promise<{ id: string; token: string }> {
  const made = await call("POST", "/tokens", { body });
  expect(made.status).toBe(201);
  return made.body;
}

describe("signing in by a token", () => {
  it("answers who signed in, and sets a cookie that scripts cannot read and other sites' pages do not send", async () => {
    const running = await start();
    const browser = new Browser();
    const { status, headers, body } = await ask(running, browser, "POST", "/session", { body: { token: adminToken } });
    expect(status).toBe(201);
    expect(body).toEqual({
      who: "environment",
      admin: true,
      roles: {},
      signedInBy: "token",
      startedAt: "2026-11-23T12:00:00.000Z",
      endsAt: "2026-11-24T00:00:00.000Z",
      endsUnusedAt: "2026-11-23T13:00:00.000Z",
      csrfToken: expect.stringMatching(/^[\w-]{43}$/),
    });
    expect(headers.get("cache-control")).toBe("no-store");
    const [cookie = "", ...others] = headers.getSetCookie();
    expect(others).toEqual([]);
    expect(cookie.split("; ").slice(1).sort()).toEqual(["HttpOnly", "Max-Age=43200", "Path=/", "SameSite=Strict"]);
    expect((await ask(running, browser, "GET", "/session")).body).toEqual(body);
  });

  it("behind TLS, makes the cookie one that no other host can set", async () => {
    const running = await start({ SLUICE_PUBLIC_URL: "https://sluice.test" });
    const { headers } = await running.call("POST", "/session", { token: undefined, body: { token: adminToken } });
    const [cookie = ""] = headers.getSetCookie();
    expect(cookie).toMatch(/^__Host-sluice-session=/);
    expect(cookie.split("; ")).toContain("Secure");
    const value = cookie.split(";", 1)[0] ?? "";
    const asks = async (sent: string) =>
      (await running.call("GET", "/session", { token: undefined, headers: { cookie: sent } })).status;
    expect(await asks(value)).toBe(200);
    expect(await asks(value.replace("__Host-", ""))).toBe(401);
  });

  it("gives the rights of the token at each request", async () => {
    const running = shared();
    await running.call("PUT", "/apps/shop", { body: { realm: {} } });
    await running.call("POST", "/members", { body: { name: "ann", roles: { shop: "viewer" } } });
    const { token } = await makeToken(running, { name: "laptop", member: "ann" });
    const { browser, csrf } = await signInByToken(running, token);
    expect((await ask(running, browser, "GET", "/session")).body).toMatchObject({
      who: "ann",
      member: "ann",
      admin: false,
      roles: { shop: "viewer" },
    });
    const put = () => ask(running, browser, "PUT", "/apps/shop/policies/books", { csrf, body: onePerSecond });
    expect((await put()).status).toBe(403);
    await running.call("PATCH", "/members/ann", { body: { roles: { shop: "editor" } } });
    expect((await put()).status).toBe(201);
    expect((await running.call("GET", "/revisions")).body.revisions[0]).toMatchObject({ who: "ann" });
  });

  it.each([
    ["an unknown token", async () => "sluice_adm_unknown", 401, "unauthorized"],
    ["a gateway's token", async () => gatewayToken, 403, "forbidden"],
    [
      "a caller's token",
      async (running: Running) => (await makeToken(running, { name: "c", app: "default", role: "caller" })).token,
      403,
      "forbidden",
    ],
  ] as const)("is refused to %s", async (_, tokenOf, status, code) => {
    const running = shared();
    const answer = await ask(running, new Browser(), "POST", "/session", { body: { token: await tokenOf(running) } });
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    expect(answer.headers.getSetCookie()).toEqual([]);
  });

  it.each([
    ["no token", {}, "token"],
    ["a number", { token: 5 }, "token"],
    ["a field too many", { token: "x", remember: true }, "remember"],
  ])("is refused with %s, by the name of the field", async (_, body, path) => {
    const running = shared();
    const answer = await ask(running, new Browser(), "POST", "/session", { body });
    expect([answer.status, answer.body.code]).toEqual([400, "invalid-request"]);
    expect(answer.body.errors[0].path).toBe(path);
  });

  it("again ends the session before, and no secret is ever used twice", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    const thief = await browser.copy();
    const first = await cookieOf(running, browser);
    const again = await ask(running, browser, "POST", "/session", { body: { token: adminToken } });
    expect(again.status).toBe(201);
    expect(await cookieOf(running, browser)).not.toBe(first);
    expect((await ask(running, thief, "GET", "/session")).status).toBe(401);
    expect((await ask(running, browser, "GET", "/session")).status).toBe(200);
  });

  it("is possible 50 times at once; then the session that was used least recently ends", async () => {
    const running = await start();
    const first = (await signInByToken(running)).browser;
    const second = (await signInByToken(running)).browser;
    running.clock.pass(2 * minuteMs);
    expect((await ask(running, first, "GET", "/session")).status).toBe(200);
    for (let i = 0; i < 49; i++) await signInByToken(running);
    expect((await ask(running, first, "GET", "/session")).status).toBe(200);
    expect((await ask(running, second, "GET", "/session")).status).toBe(401);
  });

  it.each([
    ["was deleted", (running: Running, id: string) => running.call("DELETE", `/tokens/${id}`)],
    [
      "belongs to a member who was disabled",
      (running: Running) => running.call("PATCH", "/members/eve", { body: { disabled: true } }),
    ],
  ])("begins no session if the token %s in the same moment", async (_, end) => {
    const running = await start();
    await running.call("POST", "/members", { body: { name: "eve", roles: { default: "viewer" } } });
    const { id } = await makeToken(running, { name: "laptop", member: "eve" });
    const { database } = running.app;
    const caller = await findCaller(database, { id }, { nowMs: running.clock.now(), groups: new Map() });
    if (typeof caller === "string") throw new Error(caller);
    await end(running, id);
    const place = { atMs: running.clock.now(), from: "127.0.0.1" };
    const session = { id: "a".repeat(32), hash: "", key: "", endsAtMs: running.clock.now() + hourMs };
    await expect(storeSignIn(database, place, caller, session)).rejects.toMatchObject({ code: "unauthorized" });
    expect(await database.selectFrom("sessions").select("id").execute()).toEqual([]);
  });

  it("stores no secret: what is in the database is no cookie", async () => {
    const running = await start();
    const { browser } = await signInByToken(running);
    const [, bits = ""] = (await cookieOf(running, browser))?.split(".") ?? [];
    expect(bits).toHaveLength(43);
    const rows = await running.app.database.selectFrom("sessions").selectAll().execute();
    expect(rows).toHaveLength(1);
    expect(JSON.stringify(rows)).not.toContain(bits);
  });
});

describe("a request with a token", () => {
  it("says who sends it, and has no session", async () => {
    const running = shared();
    const { status, body } = await running.call("GET", "/session");
    expect([status, body]).toEqual([200, { who: "environment", admin: true, roles: {} }]);
    expect((await running.call("DELETE", "/session")).body).toEqual({});
  });

  it("needs no CSRF token, also with a cookie beside it", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    const headers = { authorization: `Bearer ${adminToken}`, "sec-fetch-site": "cross-site" };
    expect((await ask(running, browser, "PUT", "/apps/films", { headers })).status).toBe(201);
  });
});

describe("a session", () => {
  const statusOf = async (running: Running, browser: Browser) =>
    (await ask(running, browser, "GET", "/session")).status;

  it("ends when it is signed out, and its cookie is taken back", async () => {
    const running = shared();
    const { browser, csrf } = await signInByToken(running);
    const thief = await browser.copy();
    expect((await ask(running, browser, "DELETE", "/session", { csrf })).status).toBe(200);
    expect(await cookieOf(running, browser)).toBeUndefined();
    const answer = await ask(running, thief, "GET", "/session");
    expect([answer.status, answer.body.code]).toEqual([401, "unauthorized"]);
    expect(answer.body.detail).toContain("sign in again");
  });

  it("ends after twelve hours, however much it is used", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    for (let i = 0; i < 23; i++) {
      running.clock.pass(30 * minuteMs);
      expect([i, await statusOf(running, browser)]).toEqual([i, 200]);
    }
    running.clock.pass(30 * minuteMs);
    expect(await statusOf(running, browser)).toBe(401);
  });

  it("ends after an hour without use", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    running.clock.pass(59 * minuteMs);
    expect(await statusOf(running, browser)).toBe(200);
    running.clock.pass(60 * minuteMs);
    expect(await statusOf(running, browser)).toBe(401);
  });

  it("lasts as long as the operator says", async () => {
    const running = await start({ SLUICE_SESSION_HOURS: "1", SLUICE_SESSION_IDLE_MINUTES: "5" });
    const { browser } = await signInByToken(running);
    for (let i = 0; i < 14; i++) {
      running.clock.pass(4 * minuteMs);
      expect([i, await statusOf(running, browser)]).toEqual([i, 200]);
    }
    running.clock.pass(4 * minuteMs);
    expect(await statusOf(running, browser)).toBe(401);
    const idle = (await signInByToken(running)).browser;
    running.clock.pass(5 * minuteMs);
    expect(await statusOf(running, idle)).toBe(401);
  });

  it("ends with its token, and says that before", async () => {
    const running = shared();
    const { token } = await makeToken(running, { name: "x", app: "default", role: "viewer", expiresIn: "10m" });
    const { browser } = await signInByToken(running, token);
    const { body } = await ask(running, browser, "GET", "/session");
    expect(Date.parse(body.endsAt)).toBe(Math.ceil((running.clock.now() + 10 * minuteMs) / 1_000) * 1_000);
    running.clock.pass(10 * minuteMs);
    expect(await statusOf(running, browser)).toBe(401);
  });

  it("ends at once when its token is deleted", async () => {
    const running = shared();
    const { id, token } = await makeToken(running, { name: "x", app: "default", role: "viewer" });
    const { browser } = await signInByToken(running, token);
    expect(await statusOf(running, browser)).toBe(200);
    await running.call("DELETE", `/tokens/${id}`);
    expect(await statusOf(running, browser)).toBe(401);
    const stored = running.app.database.selectFrom("sessions").select("id").where("token", "=", id);
    expect(await stored.execute()).toEqual([]);
  });

  it("ends at once when its member is disabled or deleted, and does not come back with them", async () => {
    const running = shared();
    await running.call("POST", "/members", { body: { name: "bob", roles: { default: "editor" } } });
    const { token } = await makeToken(running, { name: "laptop", member: "bob" });
    const { browser } = await signInByToken(running, token);
    // The answer takes the cookie back from the browser that asks.
    const other = await browser.copy();
    await running.call("PATCH", "/members/bob", { body: { disabled: true } });
    expect(await statusOf(running, browser)).toBe(401);
    await running.call("PATCH", "/members/bob", { body: { disabled: false } });
    expect(await statusOf(running, other)).toBe(401);
    const another = (await signInByToken(running, token)).browser;
    await running.call("DELETE", "/members/bob");
    expect(await statusOf(running, another)).toBe(401);
  });

  it("that has ended is deleted by the control plane", async () => {
    const running = await start();
    const { browser } = await signInByToken(running);
    await signInByToken(running);
    const stored = async () => (await running.app.database.selectFrom("sessions").select("id").execute()).length;
    running.clock.pass(30 * minuteMs);
    expect(await statusOf(running, browser)).toBe(200);
    running.clock.pass(31 * minuteMs);
    await running.app.deleteOutdated();
    expect(await stored()).toBe(1);
    running.clock.pass(12 * hourMs);
    await running.app.deleteOutdated();
    expect(await stored()).toBe(0);
  });

  it("opens no push socket, and a cookie that we never made opens nothing", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    expect((await ask(running, browser, "GET", "/push")).status).toBe(401);
    for (const cookie of [
      "sluice-session=x",
      "sluice-session=",
      `sluice-session=${"0".repeat(32)}.${"A".repeat(43)}`,
    ]) {
      const { status } = await running.call("GET", "/session", { token: undefined, headers: { cookie } });
      expect([cookie, status]).toEqual([cookie, 401]);
    }
  });
});

describe("the secret of a session", () => {
  it("changes every quarter of an hour, and the CSRF token stays", async () => {
    const running = shared();
    const { browser, csrf } = await signInByToken(running);
    const secrets = new Set([await cookieOf(running, browser)]);
    for (let i = 1; i <= 4; i++) {
      running.clock.pass(14 * minuteMs);
      await ask(running, browser, "GET", "/session");
      expect(secrets).toContain(await cookieOf(running, browser));
      running.clock.pass(minuteMs);
      const { body } = await ask(running, browser, "GET", "/session");
      expect(body.csrfToken).toBe(csrf);
      secrets.add(await cookieOf(running, browser));
      expect(secrets.size).toBe(i + 1);
    }
  });

  it("may be the one before for a minute: requests that were on their way are served", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    await ask(running, browser, "GET", "/session");
    running.clock.pass(15 * minuteMs);
    const late = await browser.copy();
    expect((await ask(running, browser, "GET", "/session")).status).toBe(200);
    expect((await ask(running, browser, "GET", "/session")).status).toBe(200);
    running.clock.pass(59_000);
    expect((await ask(running, late, "GET", "/session")).status).toBe(200);
    expect(await cookieOf(running, late)).toBe(await cookieOf(running, browser));
  });

  it("that is used after that ends the session, for whoever has it, and is in the audit trail", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    const thief = await browser.copy();
    running.clock.pass(15 * minuteMs);
    await ask(running, browser, "GET", "/session");
    await ask(running, browser, "GET", "/session");
    running.clock.pass(minuteMs);
    const stolen = await ask(running, thief, "GET", "/session");
    expect([stolen.status, stolen.body.detail]).toEqual([401, expect.stringContaining("copied the cookie")]);
    expect((await ask(running, browser, "GET", "/session")).status).toBe(401);
    const [entry] = (await running.call("GET", "/audit?action=end-session")).body.entries;
    expect(entry).toMatchObject({ who: "environment", from: "127.0.0.1", after: { reason: "an old secret was used" } });
  });

  it("two changes old ends the session too", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    const thief = await browser.copy();
    for (let i = 0; i < 2; i++) {
      running.clock.pass(15 * minuteMs);
      await ask(running, browser, "GET", "/session");
    }
    expect((await ask(running, thief, "GET", "/session")).status).toBe(401);
    expect((await ask(running, browser, "GET", "/session")).status).toBe(401);
  });

  it("is sent again if the answer that had it was lost", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    running.clock.pass(15 * minuteMs);
    const lost = await browser.copy();
    await ask(running, lost, "GET", "/session");
    running.clock.pass(10 * minuteMs);
    expect((await ask(running, browser, "GET", "/session")).status).toBe(200);
    expect(await cookieOf(running, browser)).toBe(await cookieOf(running, lost));
  });

  it("is sent with errors too, as the browser has asked with the former one", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    const former = await cookieOf(running, browser);
    running.clock.pass(15 * minuteMs);
    expect((await ask(running, browser, "PUT", "/apps/none")).body.code).toBe("cross-site-request");
    expect(await cookieOf(running, browser)).not.toBe(former);
    expect((await ask(running, browser, "GET", "/session")).status).toBe(200);
  });

  it("becomes the same for all requests that come at once", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    running.clock.pass(15 * minuteMs);
    const copies = await Promise.all(Array.from({ length: 20 }, () => browser.copy()));
    const statuses = await Promise.all(copies.map((copy) => ask(running, copy, "GET", "/session")));
    expect(new Set(statuses.map(({ status }) => status))).toEqual(new Set([200]));
    const secrets = new Set(await Promise.all(copies.map((copy) => cookieOf(running, copy))));
    expect(secrets.size).toBe(1);
    expect(secrets).not.toContain(await cookieOf(running, browser));
  });
});

it("signing in and out is in the audit trail, for the owners of an app's token too", async () => {
  const running = await start();
  const { token } = await makeToken(running, { name: "console", app: "default", role: "owner" });
  const { browser, csrf } = await signInByToken(running, token);
  running.clock.pass(minuteMs);
  await ask(running, browser, "DELETE", "/session", { csrf });
  await signInByToken(running);
  const entriesFor = async (reader?: string) => {
    const { entries } = (await running.call("GET", "/audit?limit=10", reader === undefined ? {} : { token: reader }))
      .body;
    return entries
      .filter(({ action }: { action: string }) => action.startsWith("sign-"))
      .map(({ action, who, from, at, app }: Record<string, string>) => [action, who, from, at, app]);
  };
  const ofApp = [
    ["sign-out", "default/console", "127.0.0.1", "2026-11-23T12:01:00.000Z", "default"],
    ["sign-in", "default/console", "127.0.0.1", "2026-11-23T12:00:00.000Z", "default"],
  ];
  expect(await entriesFor(token)).toEqual(ofApp);
  expect((await entriesFor()).sort()).toEqual(
    [["sign-in", "environment", "127.0.0.1", "2026-11-23T12:01:00.000Z", undefined], ...ofApp].sort(),
  );
});

it.runIf(testDatabaseKind !== undefined)("a session is one at all control planes that share a database", async () => {
  const clock = makeClock();
  const dataDir = await temporaryDir();
  const database = { SLUICE_DATABASE_URL: (await databaseUrlFor(dataDir)) ?? "" };
  const one = await startControlPlane(database, { now: clock.now });
  const two = await startControlPlane(database, { now: clock.now });
  const { browser, csrf } = await signInByToken(one);
  clock.pass(15 * minuteMs);
  const copies = await Promise.all(Array.from({ length: 20 }, () => browser.copy()));
  const answers = await Promise.all(copies.map((copy, i) => ask(i % 2 === 0 ? one : two, copy, "GET", "/session")));
  expect(new Set(answers.map(({ status, body }) => `${status} ${body.csrfToken}`))).toEqual(new Set([`200 ${csrf}`]));
  const secrets = new Set(await Promise.all(copies.map((copy) => cookieOf(one, copy))));
  expect(secrets.size).toBe(1);
  const [present] = copies as [Browser];
  expect((await ask(one, present, "DELETE", "/session", { csrf })).status).toBe(200);
  expect((await ask(two, present, "GET", "/session")).status).toBe(401);
});

describe("cookies of the session's name that another program on the host has set", () => {
  const fake = `${"0".repeat(32)}.${"A".repeat(43)}`;

  /** Sets a cookie as a page of another port, or one without TLS, can. */
  const plant = (running: Running, browser: Browser, value: string, path: string) =>
    browser.jar.setCookie(`sluice-session=${value}; Path=${path}`, running.url);

  it.each([
    ["no value of ours", "x", "/api"],
    ["a session that nobody has", fake, "/api/v1"],
    ["a session that nobody has, for one route alone", fake, "/api/v1/session"],
  ])("sign nobody out: %s", async (_, value, path) => {
    const running = shared();
    const { browser } = await signInByToken(running);
    await plant(running, browser, value, path);
    expect((await ask(running, browser, "GET", "/session")).body.who).toBe("environment");
    // The answer has taken it back.
    const left = await browser.jar.getCookies(`${running.url}/api/v1/session`);
    expect(left.map((cookie) => cookie.path)).toEqual(["/"]);
    // Nor do many of them.
    for (let i = 0; i < 40; i++) await plant(running, browser, fake.replace(/^../, `${i + 10}`), `${path}?${i}`);
    expect((await ask(running, browser, "GET", "/session")).status).toBe(200);
  });

  it("keep nobody from signing in again", async () => {
    const running = shared();
    const browser = new Browser();
    await plant(running, browser, fake, "/api/v1");
    const { status } = await ask(running, browser, "POST", "/session", { body: { token: adminToken } });
    expect(status).toBe(201);
    await plant(running, browser, fake, "/api");
    expect((await ask(running, browser, "GET", "/session")).status).toBe(200);
  });

  it("do not make somebody work in the session of another person without noticing", async () => {
    const running = await start();
    const other = await makeToken(running, { name: "eve", role: "viewer", app: "default" });
    const { browser: evesBrowser } = await signInByToken(running, other.token);
    const { browser, csrf } = await signInByToken(running);
    await plant(running, browser, (await cookieOf(running, evesBrowser)) ?? "", "/api");
    const refused = await ask(running, browser, "PUT", "/apps/shop", { csrf });
    expect([refused.status, refused.body.detail]).toEqual([
      401,
      expect.stringContaining("cookies of several sessions"),
    ]);
    // Both are gone, and the next sign-in is one's own.
    expect(await browser.jar.getCookies(`${running.url}/api/v1/apps/shop`)).toEqual([]);
    await ask(running, browser, "POST", "/session", { body: { token: adminToken } });
    expect((await ask(running, browser, "GET", "/session")).body.who).toBe("environment");
  });

  it("give nobody more requests", async () => {
    const running = await start({ SLUICE_API_RATE: "1:3" });
    const { browser } = await signInByToken(running);
    const own = await cookieOf(running, browser);
    const answers: number[] = [];
    for (let i = 0; i < 6; i++) {
      const cookie = `sluice-session=${fake.replace(/^../, `${i + 10}`)}; sluice-session=${own}`;
      answers.push((await running.call("GET", "/session", { token: undefined, headers: { cookie } })).status);
    }
    expect(answers).toEqual([200, 200, 200, 429, 429, 429]);
  });
});

it("a page of another session reads nothing in this one", async () => {
  const running = shared();
  const { csrf } = await signInByToken(running);
  const { browser, csrf: own } = await signInByToken(running);
  expect((await ask(running, browser, "GET", "/apps", { csrf: own })).status).toBe(200);
  const refused = await ask(running, browser, "GET", "/apps", { csrf });
  expect([refused.status, refused.body.code]).toEqual([403, "cross-site-request"]);
});
