// Limits in the console's form that go by the calendar, and plans: by form, before the real system, and in the list of policies afterwards.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";

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

const stored = async (name: string) => JSON.parse((await system.api("GET", `/apps/default/policies/${name}`)).body);

it("makes a policy with plans, of which one is billed by the month of a place", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/policies/new?from=perUser");
  await page.getByLabel("Name", { exact: true }).fill("tiers");
  await page.getByLabel("Paths").fill("/tiers");
  await page.getByLabel("Key", { exact: true }).fill("header:x-user");
  await page.getByLabel("Algorithm").selectOption("fixed-window");
  await page.getByLabel("Quota").fill("3");
  await page.getByLabel("Window", { exact: true }).fill("month");
  await page.getByLabel("Time zone", { exact: true }).fill("Europe/Berlin");
  await page.getByLabel("Begins on day").fill("32");
  await page.getByText("expected an integer from 1 to 31").first().waitFor();
  await page.getByLabel("Begins on day").fill("15");

  await page.getByRole("button", { name: "Different limits by plan" }).click();
  const free = page.getByRole("group", { name: "Plan free" });
  expect(await free.getByLabel("Quota").inputValue()).toBe("3");
  await page.getByLabel("Another plan").fill("Pro");
  await page.getByText("Expected a name of a-z").waitFor();
  expect(await page.getByRole("button", { name: "Add the plan" }).isDisabled()).toBe(true);
  await page.getByLabel("Another plan").fill("pro");
  await page.getByRole("button", { name: "Add the plan" }).click();
  await page.getByRole("group", { name: "Plan pro" }).getByLabel("Quota").fill("1000");
  await page.getByText("The policy is valid.").waitFor();
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText(/tiers is enforced from revision/).waitFor();

  const limit = { algorithm: "fixed-window", window: "month", timezone: "Europe/Berlin", anchor: 15 };
  expect(await stored("tiers")).toMatchObject({
    plans: { free: [{ ...limit, quota: 3 }], pro: [{ ...limit, quota: 1000 }] },
    planBy: "header:x-plan",
    defaultPlan: "free",
  });
  expect(await stored("tiers")).not.toHaveProperty("limits");
  const told = await ask(`${system.gateways[0]?.url}/tiers`, { headers: { "x-user": "ann", "x-plan": "pro" } });
  expect(told.headers["x-ratelimit-limit"]).toBe("1000");

  await page.getByRole("link", { name: "Policies" }).first().click();
  await page.getByRole("row", { name: /tiers/ }).getByText("3/month").waitFor();
  expect(faults).toEqual([]);
  await page.context().close();
});

it("says under which plan a request that one tries is counted", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/try");
  await page.getByLabel("Path").fill("/tiers");
  await page.getByLabel("Headers").fill("x-user: bob\nx-plan: pro");
  await page.getByText("Plan pro applies.").waitFor();
  await page.getByLabel("Headers").fill("x-user: bob\nx-plan: gold");
  await page.getByText("Plan free applies.").waitFor();
  expect(faults).toEqual([]);
  await page.context().close();
});
