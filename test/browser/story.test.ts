// An operator's day in the console, on a real system with traffic: from the first policy to a ban, a control plane that dies, and a colleague who
// may only look and reads Chinese.

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";
import { until, untilPasses } from "../fixtures/until.ts";

let system: System;
let browser: Browser;
const stopping = new AbortController();
const clients: Promise<void>[] = [];

/** Sends requests of a client one after the other, for as long as the test goes. @returns nothing before the test is over */
async function keepAsking(path: string, user: string): Promise<void> {
  for (let i = 0; !stopping.signal.aborted; i++) {
    const gateway = system.gateways[i % 2]?.url;
    await ask(`${gateway}${path}`, { headers: { "x-user": user } }).catch(() => undefined);
  }
}

beforeAll(async () => {
  system = await System.start({ gateways: 2 });
  browser = await startBrowser();
});
afterAll(async () => {
  stopping.abort();
  await Promise.allSettled(clients);
  await browser?.close();
  await system?.stop();
});

const statusOf = async (user: string) =>
  (await ask(`${system.gateways[0]?.url}/films`, { headers: { "x-user": user } })).status;
const refusedPerSecond = async (page: Page) =>
  Number(/^\d+/.exec((await page.locator('[data-result="refused"]').textContent()) ?? "")?.[0]);

it("creates, forecasts, tries in shadow mode, enforces, watches, rolls back, bans, outlives the control plane, and shows it to a viewer", async () => {
  const { page, faults } = await newPage(browser);
  clients.push(keepAsking("/films", "greedy"), keepAsking("/films", "greedy"), keepAsking("/films", "modest"));

  // A policy by form.
  await signIn(page, system.controlUrl, adminToken, "/policies/new?from=perUser");
  await page.getByLabel("Name", { exact: true }).fill("films");
  await page.getByLabel("Paths").fill("/films");
  await page.getByLabel("Key", { exact: true }).fill("header:x-user");
  await page.getByLabel("Quota").fill("5");
  await page.getByLabel("Window", { exact: true }).fill("10s");
  await page.getByText("The policy is valid.").waitFor();

  // What it would do changes with the YAML.
  const panel = page.getByRole("region", { name: "What it would do" });
  await panel.getByLabel("Traffic").selectOption("steady");
  await panel.getByLabel("Requests per second").fill("10");
  const draft = panel.locator("div", { has: page.getByText("This draft", { exact: true }) }).last();
  const refusedInForecast = async () => Number(/(\d+) refused/.exec((await draft.textContent()) ?? "")?.[1]);
  await panel.and(page.locator('[aria-busy="false"]')).waitFor();
  const before = await refusedInForecast();
  const yaml = page.getByRole("textbox", { name: "YAML" });
  await yaml.getByText("quota: 5").dblclick();
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+End");
  await page.keyboard.type("quota: 50");
  await untilPasses(async () => expect(await page.getByLabel("Quota").inputValue()).toBe("50"));
  await untilPasses(async () => expect(await refusedInForecast()).toBeLessThan(before));
  await page.getByLabel("Quota").fill("5");

  // In shadow mode it refuses nobody; once it is enforced, the chart shows it within two seconds.
  await page.getByRole("button", { name: "Save in shadow mode" }).click();
  await page.getByText(/films is in shadow mode from revision/).waitFor();
  await page.getByText(/2 of 2 connected gateways have/).waitFor();
  expect(await statusOf("greedy")).toBe(200);
  await page.locator(".live").waitFor();
  expect(await refusedPerSecond(page)).toBe(0);
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText(/films is enforced from revision/).waitFor();
  await until("a request is refused", async () => (await statusOf("greedy")) === 429);
  await untilPasses(async () => expect(await refusedPerSecond(page)).toBeGreaterThan(0));

  // Back to shadow mode by the history.
  await page.getByRole("link", { name: "History" }).click();
  await page.getByRole("group", { name: "History" }).getByRole("row").nth(1).getByRole("link").click();
  await page.getByRole("button", { name: "Undo this change of films" }).click();
  await page.getByRole("dialog").locator(".diff .added", { hasText: "mode: shadow" }).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
  await page.getByText("which 2 of 2 gateways have").waitFor();
  await until("nobody is refused", async () => (await statusOf("greedy")) === 200);
  await page.getByRole("button", { name: "Undo", exact: true }).last().click();
  await until("requests are refused again", async () => (await statusOf("greedy")) === 429);

  // The key that is refused most, banned in two clicks.
  await page.goto(`${system.controlUrl}/keys?app=default&policy=films`);
  await page.getByRole("button", { name: "Ban greedy" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Ban" }).click();
  await page.getByText("greedy is banned, which 2 of 2 gateways enforce.").waitFor();
  expect(await statusOf("greedy")).toBe(403);
  expect(await statusOf("modest")).not.toBe(403);

  // A control plane that dies and comes back.
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByText("Nothing needs your attention.").waitFor();
  expect(faults).toEqual([]);
  await system.killControlPlane();
  await page.getByText("The control plane does not answer. Gateways keep").waitFor();
  expect(await statusOf("greedy")).toBe(403);
  await system.startControlPlane();
  await page.getByText("Nothing needs your attention.").waitFor();
  await page.context().close();

  // A viewer whose browser speaks Chinese sees the ban, and cannot end it.
  const { body } = await system.api("POST", "/tokens", { name: "looks", role: "viewer", app: "default" });
  const { token } = JSON.parse(body) as { token: string };
  const viewer = await newPage(browser, { locale: "zh-CN" });
  await viewer.page.goto(`${system.controlUrl}/bans`);
  await viewer.page.getByLabel("令牌").fill(token);
  await viewer.page.keyboard.press("Enter");
  await viewer.page.getByRole("heading", { name: "封禁" }).waitFor();
  await viewer.page.getByRole("row", { name: "greedy" }).waitFor();
  expect(await viewer.page.getByRole("button", { name: "解除封禁" }).count()).toBe(0);
  expect(await viewer.page.getByRole("link", { name: "审计记录" }).count()).toBe(0);
  await viewer.page.goto(`${system.controlUrl}/audit`);
  await viewer.page.getByRole("alert").waitFor();
  expect(viewer.faults).toEqual([]);
  await viewer.page.context().close();
});
