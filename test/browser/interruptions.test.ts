// What happens to somebody's work in the console when something comes between: the session ends, others change the same thing, an answer is
// late, and what was done is undone.

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, signOut, startBrowser } from "../fixtures/clients/console-page.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";
import { until, untilPasses } from "../fixtures/until.ts";

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

const policy = (name: string, quota = 5) => ({
  name,
  match: { paths: [`/${name}`] },
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});
const stored = async (name: string) => {
  const { status, body } = await system.api("GET", `/apps/default/policies/${name}`);
  return status === 200 ? (JSON.parse(body) as Record<string, unknown>) : status;
};

async function editorOf(name: string): Promise<{ page: Page; faults: string[] }> {
  await system.put(policy(name));
  const made = await newPage(browser);
  await signIn(made.page, system.controlUrl, adminToken, `/policies/default/${name}`);
  await made.page.getByRole("textbox", { name: "YAML" }).waitFor();
  return made;
}

it("a session that ended asks for a new sign-in over the page, and what was typed is stored afterwards", async () => {
  const { page, faults } = await editorOf("session");
  await page.getByLabel("Description").fill("an hour of work");
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Save and enforce" }).click();
  const dialog = page.getByRole("dialog", { name: "Your session has ended" });
  await dialog.getByLabel("Token").fill(adminToken);
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(await page.getByLabel("Description").inputValue()).toBe("an hour of work");
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText(/session is enforced from revision/).waitFor();
  expect(await stored("session")).toMatchObject({ description: "an hour of work" });
  expect(faults).toEqual([]);
  await page.context().close();
});

it("after a new sign-in in another tab one stores and signs out as before; a sign-out that fails says so", async () => {
  const { page } = await editorOf("tabs");
  const other = await page.context().newPage();
  await page.context().clearCookies();
  await signIn(other, system.controlUrl, adminToken, "/overview");
  await page.getByLabel("Description").fill("from the first tab");
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText(/tabs is enforced from revision/).waitFor();
  await page.route("**/api/v1/session", (route) =>
    route.request().method() === "DELETE" ? route.abort() : route.continue(),
  );
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You are still signed in").waitFor();
  await page.unroute("**/api/v1/session");
  await page.goto(`${system.controlUrl}/overview`);
  await signOut(page, [other]);
  await other.goto(`${system.controlUrl}/overview`);
  await other.getByLabel("Token").waitFor();
  await page.context().close();
});

it("what is typed while a save is on its way, and before an undo, stays", async () => {
  const { page, faults } = await editorOf("typing");
  const late = Promise.withResolvers<void>();
  await page.route("**/policies/typing", async (route) => {
    if (route.request().method() === "PUT") await late.promise;
    await route.continue();
  });
  await page.getByLabel("Description").fill("first");
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByLabel("Description").fill("second");
  late.resolve();
  await page.getByText(/typing is enforced from revision/).waitFor();
  expect(await page.getByLabel("Description").inputValue()).toBe("second");
  expect(await stored("typing")).toMatchObject({ description: "first" });
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await until("the former version is stored", async () => {
    const now = await stored("typing");
    return typeof now === "object" && now["description"] === undefined;
  });
  expect(await page.getByLabel("Description").inputValue()).toBe("second");
  expect(faults).toEqual([]);
  await page.context().close();
});

it("a policy that somebody else changed is shown as it is now; one that somebody else deleted can be saved again", async () => {
  const { page, faults } = await editorOf("others");
  await system.put(policy("others", 77));
  await page.reload();
  await untilPasses(async () => expect(await page.getByLabel("Quota").inputValue()).toBe("77"));
  await page.getByLabel("Description").fill("mine");
  await system.api("DELETE", "/apps/default/policies/others");
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText("Somebody has deleted this policy meanwhile.").waitFor();
  expect(await page.getByLabel("Description").inputValue()).toBe("mine");
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText(/others is enforced from revision/).waitFor();
  expect(await stored("others")).toMatchObject({ description: "mine", limits: [{ quota: 77 }] });
  expect(faults).toEqual([]);
  await page.context().close();
});

it("a new policy whose name is taken says so, and leads to the other", async () => {
  await system.put(policy("taken"));
  const { page } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/policies/new?from=perUser");
  await page.getByLabel("Name", { exact: true }).fill("taken");
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText("There is a policy with the name taken in this app already.").waitFor();
  expect(await page.getByRole("link", { name: "Open taken" }).getAttribute("href")).toBe("/policies/default/taken");
  expect(await stored("taken")).toMatchObject({ match: { paths: ["/taken"] } });
  await page.context().close();
});

it("a roll-back shows what somebody changed while its dialog was open, before it takes that back", async () => {
  await system.put(policy("reread", 5));
  await system.put(policy("reread", 9));
  const { page } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/history");
  await page.getByRole("group", { name: "History" }).getByRole("row").nth(1).getByRole("link").click();
  await page.getByRole("button", { name: "Undo this change of reread" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.locator(".diff .removed", { hasText: "quota: 9" }).waitFor();
  await system.put(policy("reread", 77));
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await dialog.getByText("Somebody has changed this").waitFor();
  await dialog.locator(".diff .removed", { hasText: "quota: 77" }).waitFor();
  const quota = async () =>
    JSON.parse((await system.api("GET", "/apps/default/policies/reread")).body).limits[0].quota as number;
  expect(await quota()).toBe(77);
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(await quota()).toBe(5);
  await page.context().close();
});

it("undo of a roll-back does not undo what others did since", async () => {
  await system.put(policy("back", 1));
  await system.put(policy("back", 2));
  const { page } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/history");
  await page.getByRole("group", { name: "History" }).getByRole("row").nth(1).getByRole("link").click();
  const late = Promise.withResolvers<void>();
  await page.route("**/rollback?dryRun=true", async (route) => {
    await late.promise;
    await route.continue();
  });
  await page.getByRole("button", { name: "Undo this change of back" }).click();
  const rollBack = page.getByRole("dialog").getByRole("button", { name: "Roll back" });
  // What it will do is not on the page yet.
  expect(await rollBack.isDisabled()).toBe(true);
  late.resolve();
  await rollBack.click();
  await page.getByText("Rolled back by revision").waitFor();
  await system.put(policy("back", 3));
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await page.getByText("It was not undone").waitFor();
  expect(await stored("back")).toMatchObject({ limits: [{ quota: 3 }] });
  await page.context().close();
});

it("half-typed YAML leaves the page as it is", async () => {
  const { page, faults } = await editorOf("half");
  const text = page.getByRole("textbox", { name: "YAML" });
  await text.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText("schedule:\n  windows:\n    - \noverrides:\n  - \nexempt: all\n");
  await page.getByText(/schedule\.windows\[0\]: expected/).waitFor();
  await page.getByLabel("Exempt addresses").fill("10.0.0.0/8");
  await text.getByText("10.0.0.0/8").waitFor();
  expect(await text.textContent()).toContain("windows:");
  expect(faults).toEqual([]);
  await page.context().close();
});

it("the live chart goes on after an answer that was no stream", async () => {
  const { page } = await newPage(browser);
  let refusals = 0;
  await page.route("**/api/v1/events**", (route) => {
    refusals += 1;
    return refusals === 1 ? route.fulfill({ status: 503, body: "" }) : route.continue();
  });
  await signIn(page, system.controlUrl, adminToken, "/overview");
  await page.getByText("Live", { exact: true }).waitFor();
  expect(refusals).toBeGreaterThan(1);
  await page.context().close();
});

/** Two tabs of one browser in which the operator is signed in, the first one with something that is not stored. */
async function twoTabs(name: string): Promise<{ page: Page; other: Page }> {
  const { page } = await editorOf(name);
  await page.getByLabel("Description").fill("secret of the former person");
  const other = await page.context().newPage();
  await other.goto(`${system.controlUrl}/overview`);
  await other.getByRole("button", { name: "Sign out" }).waitFor();
  return { page, other };
}

/** The page with what is typed in it. */
function everythingIn(page: Page): Promise<string> {
  return page.evaluate(() => {
    const fields = [...document.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>("input, textarea")];
    return document.body.innerHTML + fields.map(({ value }) => value).join("\n");
  });
}

async function tokenOfEve(): Promise<string> {
  const { status, body } = await system.api("POST", "/tokens", { name: "eve", app: "default", role: "viewer" });
  expect(status).toBe(201);
  return (JSON.parse(body) as { token: string }).token;
}

it("after a sign-out in another tab nothing of what was shown is left", async () => {
  const { page, other } = await twoTabs("left");
  await signOut(other, [page]);
  for (const tab of [other, page]) {
    await tab.getByLabel("Token").waitFor();
    expect(await everythingIn(tab)).not.toContain("former person");
    expect(await tab.getByRole("textbox", { name: "YAML" }).count()).toBe(0);
  }
  await page.context().close();
});

it("after somebody else has signed in in another tab, the page of the former person is gone", async () => {
  const { page, other } = await twoTabs("replaced");
  await other.goto(`${system.controlUrl}/sign-in`);
  await other.getByLabel("Token").fill(await tokenOfEve());
  await other.getByRole("button", { name: "Sign in" }).click();
  await page.getByTitle("Signed in as default/eve").waitFor();
  expect(await everythingIn(page)).not.toContain("former person");
  await page.context().close();
});

it("after somebody else's session has come into the browser unheard, the page shows nothing of it and goes", async () => {
  const { page } = await editorOf("unheard");
  await page.getByLabel("Description").fill("secret of the former person");
  const url = `${system.controlUrl}/api/v1/session`;
  const signedIn = await page.context().request.post(url, { data: { token: await tokenOfEve() } });
  expect(signedIn.status()).toBe(201);
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByTitle("Signed in as default/eve").waitFor();
  expect(await everythingIn(page)).not.toContain("former person");
  expect(await stored("unheard")).not.toHaveProperty("description");
  await page.context().close();
});

it("a page that asks nothing by itself is hidden once its session has not been used for too long, with what it said was done", async () => {
  const { page } = await newPage(browser);
  await page.clock.install();
  await signIn(page, system.controlUrl, adminToken, "/bans?app=default");
  await page.getByRole("button", { name: /ban/i }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox").first().fill("198.51.100.9/32");
  await dialog.getByRole("button", { name: "Ban" }).click();
  const notice = page.locator(".notices p");
  await notice.waitFor();
  await page.context().clearCookies();
  await page.clock.fastForward("01:01:00");
  await page.getByRole("dialog", { name: "Your session has ended" }).waitFor();
  expect(await notice.count()).toBe(1);
  for (const shown of [notice, page.locator("main table")]) expect(await shown.isVisible()).toBe(false);
  await page.context().close();
});

it("while a session has ended, nobody sees the page, and somebody else who signs in there gets one of their own", async () => {
  const { page } = await editorOf("hidden");
  const description = page.getByLabel("Description");
  await description.fill("secret of the former person");
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Save and enforce" }).click();
  const dialog = page.getByRole("dialog", { name: "Your session has ended" });
  await dialog.waitFor();
  expect(await description.isVisible()).toBe(false);
  expect(await everythingIn(page)).toContain("former person");
  await dialog.getByRole("button", { name: "Later" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(await description.isVisible()).toBe(false);
  await page.getByRole("button", { name: "Sign in again" }).click();
  await dialog.getByLabel("Token").fill(await tokenOfEve());
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await page.getByTitle("Signed in as default/eve").waitFor();
  expect(await everythingIn(page)).not.toContain("former person");
  await page.context().close();
});
