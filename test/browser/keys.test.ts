// Keys, bans and "Try it" in the console, before the real system: how a key stands on Redis and at every gateway, and what one can do about it.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";

let system: System;
let browser: Browser;
/** What somebody sends as a key may be anything. */
const hostile = "<img src=x onerror=alert(1)>";

beforeAll(async () => {
  system = await System.start({ gateways: 2, redis: true });
  const limited = (name: string, scope: string) => ({
    name,
    scope,
    match: { paths: [`/${name}`] },
    key: ["header:user-agent"],
    limits: [{ name: "daily", algorithm: "fixed-window", quota: 3, window: "366d" }],
  });
  await system.put(limited("alone", "node"));
  await system.put(limited("together", "cluster"));
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await system?.stop();
});

const statusOf = async (path: string, agent = hostile, gateway = 0) =>
  (await ask(`${system.gateways[gateway]?.url}/${path}`, { headers: { "user-agent": agent } })).status;

it("looks a key up at every gateway: says what refuses it and until when, resets it, and tops it up", async () => {
  for (let i = 0; i < 4; i++) await statusOf("alone");
  await statusOf("alone", hostile, 1);
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/keys");
  await page.getByLabel("Policy").fill("alone");
  await page.getByLabel("header:user-agent").fill(hostile);
  await page.getByRole("button", { name: "Look up" }).first().click();
  const card = page.getByRole("region", { name: "The key's counter" });
  await card.getByText(/gateway-1: the limit daily refuses the next request, until .* at the latest/).waitFor();
  const at = (gateway: string) =>
    card
      .getByRole("group", { name: `The counter at ${gateway}` })
      .getByRole("row")
      .nth(1);
  expect(await at("gateway-1").textContent()).toMatch(/^daily 303/);
  expect(await at("gateway-2").textContent()).toMatch(/^daily 123/);
  // A time of months is told as people tell it, and not in seconds.
  expect(await at("gateway-1").locator("time").textContent()).toMatch(/day|month|year/);
  // A deep link shows the same, and what a client sent is text.
  await page.reload();
  await card.getByText(hostile).waitFor();
  expect(await page.locator("img[src=x]").count()).toBe(0);
  await card.getByRole("button", { name: "Reset" }).click();
  await page.getByRole("dialog").getByText("This cannot be undone.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Reset" }).click();
  await card.getByText("The next request of this key is admitted.").waitFor();
  for (let i = 0; i < 3; i++) expect(await statusOf("alone")).toBe(200);
  expect(await statusOf("alone")).toBe(429);
  await card.getByRole("button", { name: "Top up" }).click();
  await page.getByRole("dialog").getByLabel("Units").fill("2");
  await page.getByRole("dialog").getByRole("button", { name: "Top up" }).click();
  await page.getByText("The key has got its units.").waitFor();
  expect([await statusOf("alone"), await statusOf("alone"), await statusOf("alone")]).toEqual([200, 200, 429]);
  // Follow: what others do meanwhile is seen.
  await card.getByLabel("Follow").check();
  await card.getByText(/gateway-1: the limit daily refuses/).waitFor();
  const actions = JSON.parse((await system.api("GET", "/audit?action=reset-counter")).body).entries;
  expect(actions[0]).toMatchObject({ app: "default" });
  expect(faults).toEqual([]);
  await page.context().close();
});

it("looks a key up on Redis, bans it with a reason, shows the ban, ends it, and undo bans it again", async () => {
  for (let i = 0; i < 2; i++) await statusOf("together", "robot", i);
  const { page, faults } = await newPage(browser);
  const key = encodeURIComponent(JSON.stringify(["robot"]));
  await signIn(page, system.controlUrl, adminToken, `/keys?policy=together&key=${key}`);
  const card = page.getByRole("region", { name: "The key's counter" });
  await card.getByRole("group", { name: "The counter at Redis" }).getByText("daily").waitFor();
  await card.getByRole("button", { name: "Ban" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("For how long").selectOption("1d");
  await dialog.getByLabel("Reason").fill(hostile);
  await dialog.getByRole("button", { name: "Ban" }).click();
  await card.getByText(/Banned until .*onerror/).waitFor();
  expect(await statusOf("together", "robot", 1)).toBe(403);
  await page.getByRole("link", { name: "Bans" }).click();
  await page.getByRole("row", { name: "robot" }).getByText("environment").waitFor();
  await page.getByRole("button", { name: "End the ban of robot" }).click();
  await dialog.getByRole("button", { name: "End the ban" }).click();
  await page.getByText("The ban of robot is ended.").waitFor();
  expect(await statusOf("together", "robot", 1)).toBe(200);
  await page.getByRole("button", { name: "Undo" }).last().click();
  await page.getByRole("row", { name: "robot" }).waitFor();
  expect(await statusOf("together", "robot")).toBe(403);
  // A network, with what is wrong said where it is wrong.
  await page.getByRole("button", { name: "Ban a network" }).click();
  await dialog.getByLabel("Address or network").fill("300.1.2.3");
  await dialog.getByRole("button", { name: "Ban" }).click();
  await dialog.getByRole("alert").getByText("cidr").first().waitFor();
  await dialog.getByLabel("Address or network").fill("198.51.100.0/24");
  await dialog.getByRole("button", { name: "Ban" }).click();
  await page.getByRole("row", { name: "198.51.100.0/24" }).waitFor();
  expect(await page.locator("img[src=x]").count()).toBe(0);
  expect(faults).toEqual([]);
  await page.context().close();
});

it("tries a request: which policies it meets, why not the others, what the counters say, and the same as curl", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/try?path=/together");
  await page.getByText("It meets no policy").waitFor();
  await page.getByText("The request lacks header:user-agent, which is in the key.").waitFor();
  await page.getByText("The path is none of /alone.").waitFor();
  await page.getByLabel("Headers").fill("no header");
  await page.getByText("This line is no header: no header").waitFor();
  await page.getByLabel("Headers").fill("user-agent: it's me");
  const met = page.getByRole("region", { name: "together" });
  await met.getByText("header:user-agent = it's me").waitFor();
  await met.getByRole("button", { name: "Ask the counters" }).click();
  await met.getByRole("row", { name: /Redis daily 3 of 3 is admitted/ }).waitFor();
  await page.getByText("curl -g -i --path-as-is http://127.0.0.1:8080/together -H 'user-agent: it'\\''s me'").waitFor();
  expect(page.url()).not.toContain("me");
  expect(faults).toEqual([]);
  await page.context().close();
});

it("shows what nobody sees in a key, so that nobody bans another one than they read", async () => {
  const agent = "\u202emoc.evil";
  await statusOf("alone", Buffer.from(agent).toString("latin1"));
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/keys");
  await page.getByLabel("Policy").fill("alone");
  await page.getByLabel("header:user-agent").fill(agent);
  await page.getByRole("button", { name: "Look up" }).first().click();
  const card = page.getByRole("region", { name: "The key's counter" });
  await card.getByText("[U+202E]moc.evil").waitFor();
  await card.getByRole("button", { name: "Ban", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "[U+202E]moc.evil" });
  await dialog.getByRole("button", { name: "Ban" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.goto(`${system.controlUrl}/bans`);
  await page.getByRole("rowheader", { name: "[U+202E]moc.evil" }).waitFor();
  expect(await page.getByText(agent).count()).toBe(0);
  expect(faults).toEqual([]);
  await page.context().close();
});
