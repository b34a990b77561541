// What databases read differently is refused before any database sees it: to PostgreSQL, a text with NUL is an error, and to
// MySQL "shop " is equal to "shop".

import { expect, it } from "vitest";
import { perSecond, sharedControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

const control = sharedControlPlane();

it.each(["%00", "default%00", "default%20"])("%s names nothing, at no route", async (name) => {
  const { app, call } = control();
  const routes = app.routeTable.filter(({ url }) => url.includes(":"));
  expect(routes.length).toBeGreaterThan(20);
  for (const { method, url } of routes) {
    const path = url.replace("/api/v1", "").replace(/:[a-z]+/gi, name);
    // A route that takes many documents takes no single one.
    const isOfMany = method === "PUT" && (url.endsWith("/policies") || url.endsWith("/consumers"));
    const type = isOfMany ? "application/jsonl" : url.includes("/networks/") ? "text/plain" : "application/json";
    const body = method === "PUT" || method === "POST" ? { body: {}, type } : {};
    const answer = await call(method, path, body);
    expect([method, url, answer.status]).toEqual([method, url, 400]);
  }
  expect((await call("GET", "/revisions")).body.revisions).toEqual([]);
});

it("a parameter with NUL is refused, unless it is a value of a key", async () => {
  const { app, call } = control();
  await call("PUT", "/apps/default/policies/per-user", { body: { ...perSecond(1), key: ["header:x-user"] } });
  const counter = await call("GET", "/apps/default/counters?policy=per-user&key=a%00");
  expect([counter.status, counter.body.key]).toEqual([200, ["a\0"]]);
  for (const { url, method } of app.routeTable) {
    if (method !== "GET" || url.includes(":revision") || !url.startsWith("/api/v1/")) continue;
    const path = url.replace("/api/v1", "").replace(":app", "default").replace(":policy", "per-user");
    for (const parameter of ["after", "app", "policy"]) {
      const { status } = await call("GET", `${path}?${parameter}=a%00`);
      expect([path, parameter, status]).not.toEqual([path, parameter, 500]);
    }
  }
  const { status, body } = await call("GET", "/audit?who=a%00");
  expect([status, body.code]).toEqual([400, "bad-request"]);
});

it("a reason with NUL is refused", async () => {
  const body = { cidr: "192.0.2.0/24", for: "1h", reason: "a\0b" };
  const answer = await control().call("POST", "/apps/default/bans", { body });
  expect([answer.status, answer.body.errors[0].path]).toEqual([400, "reason"]);
});
