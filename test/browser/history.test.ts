// The history in the console, before the real system: who changed what, and back to how it was.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import { askAtOnce } from "../fixtures/clients/requests.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

let system: System;
let browser: Browser;
const books = (quota: number) => ({
  name: "books",
  description: "\u202e<img src=x onerror=alert(1)>",
  match: { paths: ["/books"] },
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});

beforeAll(async () => {
  system = await System.start();
  await system.put(books(5));
  await system.put(books(9));
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await system?.stop();
});

it("shows who changed what, and rolls a policy back, which gateways enforce; undo brings the change again", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/history");
  await page.getByRole("group", { name: "History" }).getByRole("row").nth(1).getByText("books").waitFor();
  expect(await page.getByRole("group", { name: "History" }).getByRole("row").nth(1).textContent()).toContain(
    "environment",
  );
  await page.getByRole("group", { name: "History" }).getByRole("row").nth(1).getByRole("link").click();
  await page.locator(".diff .removed", { hasText: "quota: 5" }).waitFor();
  await page.locator(".diff .added", { hasText: "quota: 9" }).waitFor();
  await page.getByRole("button", { name: "Undo this change of books" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.locator(".diff .added", { hasText: "quota: 5" }).waitFor();
  expect(JSON.parse((await system.api("GET", "/apps/default/policies/books")).body).limits[0].quota).toBe(9);
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await page.getByText("which 1 of 1 gateways have").waitFor();
  expect(await askAtOnce([`${system.gateways[0]?.url}/books`], 10)).toEqual({ 200: 5, 429: 5 });
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await until("the quota is 9 again", async () => {
    const { body } = await system.api("GET", "/apps/default/policies/books");
    return JSON.parse(body).limits[0].quota === 9;
  });
  expect(faults).toEqual([]);
  await page.context().close();
});

it("a viewer sees what changed, as text that cannot run, and cannot roll back", async () => {
  const { body } = await system.api("POST", "/tokens", { name: "looks", role: "viewer", app: "default" });
  const { page, faults } = await newPage(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, system.controlUrl, (JSON.parse(body) as { token: string }).token, "/history");
  await page.getByRole("row").last().getByRole("link").click();
  await page.locator(".diff .added", { hasText: "[U+202E]<img src=x onerror=alert(1)>" }).waitFor();
  expect(await page.getByRole("button", { name: /Undo|Bring/ }).count()).toBe(0);
  expect(await page.locator("img[src=x]").count()).toBe(0);
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  expect(faults).toEqual([]);
  await page.context().close();
});
