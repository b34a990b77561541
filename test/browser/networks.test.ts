// Lists of networks in the console, before the real system.

import { readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import { putNetworks } from "../fixtures/clients/network-lists.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";
import { untilPasses } from "../fixtures/until.ts";

let system: System;
let browser: Browser;

beforeAll(async () => {
  system = await System.start();
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await system?.stop();
});

const storedNetworks = async (name: string) =>
  JSON.parse((await system.api("GET", `/apps/default/networks/${name}`)).body).networks as string[];

it("adds a list, says what is wrong with a line, and a gateway exempts who is on it", async () => {
  await system.put({
    name: "books",
    match: { paths: ["/books"] },
    exempt: { cidrs: ["@office"] },
    limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
  });
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/networks");
  await page.getByText("The app default has no list of networks yet.").waitFor();
  await page.getByRole("button", { name: "Add a list" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Store", exact: true }).click();
  await dialog.getByText("Enter a name.").waitFor();
  await dialog.getByLabel("Name").fill("office");
  await dialog.getByLabel("Networks").fill("192.0.2.0/24\nsomewhere");
  await dialog.getByRole("button", { name: "Store", exact: true }).click();
  await dialog
    .getByRole("alert")
    .getByText(/^line 2: expected an IPv4 or IPv6 network .*, got "somewhere"$/)
    .waitFor();
  // What was typed is still there.
  await dialog.getByLabel("Networks").fill("192.0.2.0/24 # the first floor\n127.0.0.1\n2001:db8::/32");
  await dialog.getByRole("button", { name: "Store", exact: true }).click();
  await page.getByText("The list office is stored, and 1 of 1 gateways have it.").waitFor();
  await page.getByRole("row", { name: /^@office 3 networks/ }).waitFor();
  expect(await storedNetworks("office")).toEqual(["127.0.0.1/32", "192.0.2.0/24", "2001:db8::/32"]);
  for (let i = 0; i < 3; i++) expect((await ask(`${system.gateways[0]?.url}/books`)).status).toBe(200);
  expect(faults).toEqual([]);
  await page.context().close();
});

it("shows a list, finds where an address is, and hands the list out", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/networks");
  await page.getByRole("button", { name: "View office" }).click();
  const dialog = page.getByRole("dialog", { name: "@office" });
  await dialog.getByText("3 of 3 networks").waitFor();
  await dialog.getByLabel("Find").fill("192.0.2.77");
  await dialog.getByText("1 of 3 networks").waitFor();
  expect(await dialog.locator("pre").textContent()).toBe("192.0.2.0/24");
  await dialog.getByLabel("Find").fill("2001:db8::7");
  await untilPasses(async () => expect(await dialog.locator("pre").textContent()).toBe("2001:db8::/32"));
  await dialog.getByLabel("Find").fill("198.51.100.1");
  await dialog.getByText("0 of 3 networks").waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    dialog.getByRole("button", { name: "Download" }).click(),
  ]);
  expect(download.suggestedFilename()).toBe("office.txt");
  expect(readFileSync(await download.path(), "utf8")).toBe("127.0.0.1/32\n192.0.2.0/24\n2001:db8::/32\n");
  expect(faults).toEqual([]);
  await page.context().close();
});

it("replaces a list by a file, says before what that changes, and takes it back", async () => {
  const { page, faults } = await newPage(browser);
  const buffer = Buffer.from("# the new office\n198.51.100.0/24\n192.0.2.0/24\n");
  await signIn(page, system.controlUrl, adminToken, "/networks");
  await page.getByRole("button", { name: "Replace office" }).click();
  const dialog = page.getByRole("dialog");
  await untilPasses(async () => expect(await dialog.getByLabel("Networks").inputValue()).toContain("192.0.2.0/24"));
  await dialog.getByLabel("File").setInputFiles({ name: "office.txt", mimeType: "text/plain", buffer });
  await dialog.getByRole("button", { name: "Show what it would change" }).click();
  await dialog.locator(".diff .added", { hasText: "198.51.100.0/24" }).waitFor();
  expect(await storedNetworks("office")).toHaveLength(3);
  await dialog.getByRole("button", { name: "Store", exact: true }).click();
  await page.getByText("The list office is stored").waitFor();
  await page.getByRole("row", { name: /^@office 2 networks/ }).waitFor();
  expect(await storedNetworks("office")).toEqual(["192.0.2.0/24", "198.51.100.0/24"]);
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByRole("row", { name: /^@office 3 networks/ }).waitFor();
  expect(await storedNetworks("office")).toEqual(["127.0.0.1/32", "192.0.2.0/24", "2001:db8::/32"]);
  expect(faults).toEqual([]);
  await page.context().close();
});

it("a list that somebody else has changed meanwhile is not overwritten", async () => {
  const { page } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/networks");
  await page.getByRole("button", { name: "Replace office" }).click();
  const dialog = page.getByRole("dialog");
  await untilPasses(async () => expect(await dialog.getByLabel("Networks").inputValue()).toContain("192.0.2.0/24"));
  await putNetworks(system, "default", "office", ["127.0.0.1", "203.0.113.0/24"]);
  await dialog.getByLabel("Networks").fill("10.0.0.0/8");
  await dialog.getByRole("button", { name: "Store", exact: true }).click();
  await dialog.getByRole("alert").waitFor();
  expect(await dialog.getByLabel("Networks").inputValue()).toBe("10.0.0.0/8");
  expect(await storedNetworks("office")).toEqual(["127.0.0.1/32", "203.0.113.0/24"]);
  await page.context().close();
});

it("keeps a list that a policy refers to, deletes it when none does, and takes that back; a trial knows lists", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/try?app=default&path=%2Fbooks&address=203.0.113.9");
  await page.getByRole("row", { name: /^books .*203\.0\.113\.9/ }).waitFor();
  await page.getByLabel("Address").fill("198.51.100.9");
  await page.getByRole("heading", { name: "books" }).waitFor();
  await page.goto(`${system.controlUrl}/networks`);
  await page.getByRole("button", { name: "Delete office" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await dialog.getByRole("alert").getByText("books").waitFor();
  await page.keyboard.press("Escape");
  await system.api("DELETE", "/apps/default/policies/books?wait=30s");
  await page.getByRole("button", { name: "Delete office" }).click();
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText("The app default has no list of networks yet.").waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByRole("row", { name: /^@office 2 networks/ }).waitFor();
  expect(faults.filter((fault) => !fault.includes("409"))).toEqual([]);
  await page.context().close();
});

it("exempts networks and key values from every policy of an app, says what is wrong, and takes it back", async () => {
  await system.put({
    name: "api",
    match: { paths: ["/api"] },
    key: ["header:x-user-id"],
    limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
  });
  const statusOf = async (user: string) =>
    (await ask(`${system.gateways[0]?.url}/api`, { headers: { "x-user-id": user } })).status;
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/networks");
  await page.getByText("Nobody is exempt from every policy of the app default.").waitFor();
  await page.getByRole("button", { name: "Change who is exempt" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Networks and lists").fill("@office\n@nowhere\n");
  await dialog.getByLabel("Key values").fill("header:x-user-id");
  await dialog.getByRole("button", { name: "Store", exact: true }).click();
  await dialog
    .getByRole("listitem")
    .filter({ hasText: /^exempt\.keys\[0\]\.pattern: expected a value/ })
    .waitFor();
  await dialog.getByLabel("Key values").fill("header:x-user-id monitor-*");
  await dialog.getByRole("button", { name: "Store", exact: true }).click();
  await page.getByText(/1 of 1 gateways have them\. exempt\.cidrs\[1\]: .*"@nowhere", which exempts nobody/).waitFor();
  await page.getByText("header:x-user-id monitor-*").waitFor();
  expect([await statusOf("monitor-1"), await statusOf("monitor-1")]).toEqual([200, 200]);
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText("Nobody is exempt from every policy of the app default.").waitFor();
  expect([await statusOf("monitor-1"), await statusOf("monitor-1")]).toEqual([200, 429]);
  expect(faults.filter((fault) => !fault.includes("400"))).toEqual([]);
  await page.context().close();
});
