// Requests that another site's page may make a browser send.

import { describe, expect, it } from "vitest";
import { Browser } from "../../fixtures/clients/browser.ts";
import { ask, cookieOf, signInByToken } from "../../fixtures/clients/signed-in.ts";
import {
  adminToken,
  type Running,
  sharedControlPlane,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";

let apps = 0;

describe("a request with a session's cookie that changes something", () => {
  const shared = sharedControlPlane();
  const own = (running: Running) => ({ origin: running.url, "sec-fetch-site": "same-origin" });

  it.each([
    ["the CSRF token", (csrf: string) => ({ "x-csrf-token": csrf }), 201],
    [
      "the CSRF token and the headers of our page",
      (csrf: string, url: string) => ({ "x-csrf-token": csrf, origin: url, "sec-fetch-site": "same-origin" }),
      201,
    ],
    ["no CSRF token", () => ({}), 403],
    ["an empty CSRF token", () => ({ "x-csrf-token": "" }), 403],
    [
      "another CSRF token",
      (csrf: string) => ({ "x-csrf-token": csrf.replace(/^./, (a) => (a === "A" ? "B" : "A")) }),
      403,
    ],
    ["the Origin of another site", (csrf: string) => ({ "x-csrf-token": csrf, origin: "https://evil.example" }), 403],
    ["the Origin null", (csrf: string) => ({ "x-csrf-token": csrf, origin: "null" }), 403],
    ["the Origin of another port", (csrf: string) => ({ "x-csrf-token": csrf, origin: "http://127.0.0.1:1" }), 403],
    ["Sec-Fetch-Site cross-site", (csrf: string) => ({ "x-csrf-token": csrf, "sec-fetch-site": "cross-site" }), 403],
    ["Sec-Fetch-Site same-site", (csrf: string) => ({ "x-csrf-token": csrf, "sec-fetch-site": "same-site" }), 403],
  ] as const)("with %s", async (_, headersFor, status) => {
    const running = shared();
    apps += 1;
    const path = `/apps/shop-${apps}`;
    const { browser, csrf } = await signInByToken(running);
    const headers: Record<string, string> = headersFor(csrf, running.url);
    const answer = await ask(running, browser, "PUT", path, { headers });
    expect(answer.status).toBe(status);
    if (status === 403) expect(answer.body.code).toBe("cross-site-request");
    expect((await running.call("GET", path)).status).toBe(status === 403 ? 404 : 200);
  });

  it("needs the token on every route and method", async () => {
    const running = shared();
    const { browser } = await signInByToken(running);
    const { body } = await running.call("GET", "openapi.json", { token: undefined });
    let tried = 0;
    for (const [pattern, methods] of Object.entries<object>(body.paths)) {
      const path = pattern.replace("/api/v1", "").replace("{app}", "default").replace(/{\w+}/g, "1");
      for (const method of Object.keys(methods)) {
        if (method === "get" || `${method} ${path}` === "post /session") continue;
        const answer = await ask(running, browser, method.toUpperCase(), path, { headers: own(running) });
        expect([method, path, answer.status, answer.body.code]).toEqual([method, path, 403, "cross-site-request"]);
        tried += 1;
      }
    }
    expect(tried).toBeGreaterThan(15);
  });

  it("may come from the public URL, if the operator has set it", async () => {
    const running = await startControlPlane({ SLUICE_PUBLIC_URL: "https://sluice.test" });
    const signedIn = await running.call("POST", "/session", {
      token: undefined,
      body: { token: adminToken },
      headers: { origin: "https://sluice.test", "sec-fetch-site": "same-origin" },
    });
    expect(signedIn.status).toBe(201);
    const cookie = signedIn.headers.getSetCookie()[0]?.split(";", 1)[0] ?? "";
    const put = async (origin: string) => {
      const headers = { cookie, origin, "x-csrf-token": signedIn.body.csrfToken };
      return (await running.call("PUT", "/apps/shop", { token: undefined, headers })).status;
    };
    expect(await put("https://sluice.test")).toBe(201);
    expect(await put("https://sluice.test:8443")).toBe(403);
  });

  it("signs nobody in from another site's page", async () => {
    const running = shared();
    const browser = new Browser();
    for (const headers of [{ origin: "https://evil.example" }, { "sec-fetch-site": "cross-site" }]) {
      const answer = await ask(running, browser, "POST", "/session", {
        body: { token: adminToken },
        headers: headers as unknown as Record<string, string>,
      });
      expect([answer.status, answer.body.code]).toEqual([403, "cross-site-request"]);
    }
    const form = await browser.send(`${running.url}/api/v1/session`, {
      method: "POST",
      body: new URLSearchParams({ token: adminToken }),
    });
    expect(form.status).toBe(415);
    expect(await cookieOf(running, browser)).toBeUndefined();
  });
});
