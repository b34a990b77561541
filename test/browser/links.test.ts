// Links to the console whose URLs say what no page writes there: somebody may send them.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";
import { untilPasses } from "../fixtures/until.ts";

let system: System;
let browser: Browser;

beforeAll(async () => {
  system = await System.start();
  await system.put({
    name: "books",
    key: ["header:x"],
    limits: [{ name: "a", algorithm: "fixed-window", quota: 3, window: "1m" }],
  });
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await system?.stop();
});

const odd = ["1", "true", "[1]", '{"a":1}'];

it.each([
  ["/overview", ["app"]],
  ["/policies", ["app", "q", "mode", "owner"]],
  ["/policies/new", ["app", "from", "template"]],
  ["/policies/default/books", ["revision"]],
  ["/keys?policy=books", ["app", "policy", "key"]],
  ["/try", ["app", "method", "host", "path", "address"]],
  ["/bans", ["app"]],
  ["/networks", ["app"]],
  ["/consumers", ["app", "prefix", "plan"]],
  ["/templates", ["app"]],
  ["/history", ["app", "policy", "period"]],
  ["/audit", ["app", "who", "action", "subject", "since"]],
  ["/members", ["app"]],
])("%s is shown, whatever the link says of %j", async (path, fields) => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, path);
  for (const field of fields) {
    for (const value of odd) {
      const link = new URL(path, system.controlUrl);
      link.searchParams.set(field, value);
      await page.goto(link.href);
      const crashed = page.getByText("The console made a mistake");
      await page.locator("main h1").or(crashed).first().waitFor();
      expect(await crashed.count(), link.search).toBe(0);
    }
  }
  expect(faults).toEqual([]);
  await page.context().close();
});

it.each([
  "https://evil.test",
  "//evil.test/x",
  "/\\evil.test",
  "\\\\evil.test",
  "/\t/evil.test",
  "/\n/evil.test",
  "javascript:alert(1)",
  "1",
  '["/keys"]',
])("a sign-in that should lead to %j leads to the overview", async (to) => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, `/sign-in?${new URLSearchParams({ to })}`);
  expect(new URL(page.url()).pathname).toBe("/overview");
  expect(faults).toEqual([]);
  await page.context().close();
});

it("a sign-in leads to the page that was asked for", async () => {
  const { page } = await newPage(browser);
  const to = "/policies?q=ärger%20%231";
  await signIn(page, system.controlUrl, adminToken, `/sign-in?${new URLSearchParams({ to })}`);
  await untilPasses(() => expect(new URL(page.url()).searchParams.get("q")).toBe("ärger #1"));
  await page.context().close();
});
