// Signing in to the console at a real OpenID provider, whose groups decide what one may do.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { consoleDist, requireConsoleBuild } from "../../launch/console-build.ts";
import { newPage, signOut, startBrowser } from "../fixtures/clients/console-page.ts";
import { startWorld } from "../fixtures/servers/openid-world.ts";

let browser: Browser;

beforeAll(async () => {
  await requireConsoleBuild();
  browser = await startBrowser();
});
afterAll(() => browser?.close());

it("leads to the provider and back to the page that was asked for, with the rights of the person's groups", async () => {
  const world = await startWorld({ surroundings: { consoleDirectory: consoleDist, now: Date.now } });
  await world.call("PUT", "/apps/shop/policies/books", {
    body: { limits: [{ algorithm: "fixed-window", quota: 1, window: "1h" }] },
  });
  await world.call("PUT", "/apps/bank/policies/loans", {
    body: { limits: [{ algorithm: "fixed-window", quota: 1, window: "1h" }] },
  });
  const { page, faults } = await newPage(browser);
  await page.goto(`${world.url}/policies?app=shop`);
  await page.getByRole("link", { name: /OpenID/ }).click();
  await page.fill('input[name="login"]', "ann");
  await page.fill('input[name="password"]', "any");
  await page.click("button");
  await page.click("button");
  await page.getByRole("link", { name: "books" }).waitFor();
  expect(new URL(page.url()).search).toBe("?app=shop");
  await page.getByText("ann@example.com").waitFor();
  // An editor of shop and a viewer of bank.
  await page.getByRole("link", { name: "New policy" }).waitFor();
  expect(await page.getByRole("link", { name: "Members" }).count()).toBe(0);
  await page.getByLabel("App").selectOption("bank");
  await page.getByRole("link", { name: "loans" }).waitFor();
  expect(await page.getByRole("link", { name: "New policy" }).count()).toBe(0);
  await signOut(page);
  // The provider's own pages may have their faults.
  expect(faults.filter((fault) => fault.includes(world.url))).toEqual([]);
  await page.context().close();
});

it("says why nobody is signed in whose groups have no right", async () => {
  const world = await startWorld({ surroundings: { consoleDirectory: consoleDist, now: Date.now } });
  const { page } = await newPage(browser);
  await page.goto(`${world.url}/sign-in`);
  await page.getByRole("link", { name: /OpenID/ }).click();
  await page.fill('input[name="login"]', "eve");
  await page.fill('input[name="password"]', "any");
  await page.click("button");
  await page.click("button");
  await page
    .getByText('The OpenID provider knows you as "eve@example.com", but none of your groups there gives rights here.')
    .waitFor();
  await page.goto(`${world.url}/overview`);
  await page.getByLabel("Token").waitFor();
  await page.context().close();
});
