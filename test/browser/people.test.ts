// Members, tokens, templates and the audit trail in the console, before the real system.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
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

const answerOf = async (path: string) => JSON.parse((await system.api("GET", path)).body);

it("adds a member with a role, changes it, and deletes them; the audit trail says who did it", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/members");
  await page.getByText("There are no members yet.").waitFor();
  await page.getByRole("button", { name: "Add a member" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("not a name");
  // Nothing that somebody typed is lost without a question; the first answer is no.
  const questions: string[] = [];
  page.once("dialog", (question) => {
    questions.push(question.message());
    void question.dismiss();
  });
  await page.keyboard.press("Escape");
  expect(questions).toEqual(["Close without storing what you typed?"]);
  expect(await dialog.getByLabel("Name").inputValue()).toBe("not a name");
  await dialog.getByRole("button", { name: "Add a member" }).click();
  await dialog.getByRole("alert").getByText("name").first().waitFor();
  await dialog.getByLabel("Name").fill("ann@example.com");
  await dialog.getByLabel("Role in default").selectOption("editor");
  await dialog.getByRole("button", { name: "Add a member" }).click();
  await page.getByRole("row", { name: /ann@example\.com editor of default/ }).waitFor();
  await page.getByRole("button", { name: "Change ann@example.com" }).click();
  await dialog.getByLabel("Role in default").selectOption("owner");
  await dialog.getByLabel("Disabled").check();
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("row", { name: /owner of default disabled/ }).waitFor();
  expect(await answerOf("/members/ann@example.com")).toMatchObject({ roles: { default: "owner" }, disabled: true });
  await page.getByRole("button", { name: "Delete ann@example.com" }).click();
  await dialog.getByText("Their tokens and sessions end at once.").waitFor();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("There are no members yet.").waitFor();
  await page.getByRole("link", { name: "Audit trail" }).click();
  await page.getByLabel("Action").selectOption("update-member");
  const trail = page.getByRole("group", { name: "Audit trail" });
  // The rows are in the list of all entries, too; only the list of one action has no others.
  // One change made two entries at the same moment: who may sign in, and the role in the app.
  await untilPasses(async () => expect(await trail.getByRole("row", { name: /ann@example\.com/ }).count()).toBe(2));
  await untilPasses(async () => expect(await trail.locator("tbody tr").count()).toBe(2));
  await trail
    .getByRole("row", { name: /environment changed a member default \/ ann@example\.com/ })
    .getByRole("button", { name: "Show" })
    .click();
  await page.getByRole("dialog").getByText('"owner"').first().waitFor();
  await page.keyboard.press("Escape");
  expect(new URL(page.url()).searchParams.get("action")).toBe("update-member");
  expect(faults).toEqual([]);
  await page.context().close();
});

it("makes a token, shows it once, and it works; then deletes it, and it does not", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/tokens");
  await page.getByRole("button", { name: "Make a token" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("deployment");
  await dialog.getByLabel("Role").selectOption("editor");
  await dialog.getByText("It may also change policies").waitFor();
  await dialog.getByRole("button", { name: "Make a token" }).click();
  const token = await dialog.getByLabel("Token").inputValue();
  const works = async () =>
    (await fetch(`${system.controlUrl}/api/v1/apps`, { headers: { authorization: `Bearer ${token}` } })).status;
  expect(await works()).toBe(200);
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByRole("row", { name: /deployment .* default editor/ }).waitFor();
  expect(await page.content()).not.toContain(token);
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href]));
  expect(kept).not.toContain(token);
  await page.getByRole("button", { name: "Delete deployment" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("The token deployment is deleted.").waitFor();
  expect(await works()).toBe(401);
  expect(faults).toEqual([]);
  await page.context().close();
});

it("shows what is supplied to be read, and begins a policy with it", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/templates");
  await page.getByRole("row", { name: /^polite-429 A polite refusal action/ }).waitFor();
  await page.getByRole("button", { name: "View download-quota" }).click();
  const dialog = page.getByRole("dialog", { name: "A download quota" });
  await dialog.getByText("Change the quota, which is in bytes, and the window.").waitFor();
  await dialog.getByText("template: download-quota", { exact: true }).waitFor();
  expect(await dialog.getByRole("textbox").count()).toBe(0);
  await dialog.getByRole("link", { name: "Begin a policy with it" }).click();
  await page.getByText("The client sees whole responses.").waitFor();
  expect(await page.getByRole("textbox", { name: "YAML" }).textContent()).toContain("response-bytes");
  expect(faults).toEqual([]);
  await page.context().close();
});

it("makes a template, shows what a change of it does to policies before it is stored, and keeps one that is in use", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/templates");
  await page.getByRole("button", { name: "New template" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("polite");
  await dialog.getByLabel("YAML").fill("onLimit: [");
  await dialog.getByRole("button", { name: "Store" }).click();
  await dialog.locator(".fault").waitFor();
  await dialog.getByLabel("YAML").fill("onLimit: { action: reject, status: 42 }");
  await dialog.getByRole("button", { name: "Store" }).click();
  await dialog.getByRole("alert").getByText("onLimit.status").waitFor();
  await dialog.getByLabel("YAML").fill("onLimit: { action: reject, status: 429, body: Please wait. }");
  await dialog.getByRole("button", { name: "Store" }).click();
  await page.getByText("polite is stored, and 1 of 1 gateways have it.").waitFor();
  await system.put({
    name: "books",
    match: { paths: ["/books"] },
    limits: [{ algorithm: "fixed-window", quota: 1, window: "1h" }],
    onLimit: { template: "polite" },
  });
  await page.reload();
  await page.getByRole("row", { name: /polite onLimit 1 policy/ }).waitFor();
  await page.getByRole("button", { name: "Edit polite" }).click();
  await dialog.getByLabel("YAML").fill("onLimit: { action: reject, status: 503 }");
  await dialog.getByRole("button", { name: "Show what it would change" }).click();
  await dialog.locator(".diff .added", { hasText: "status: 503" }).first().waitFor();
  expect((await answerOf("/apps/default/templates/polite")).onLimit.status).toBe(429);
  await dialog.getByRole("button", { name: "Store" }).click();
  await page.getByText("polite is stored, and 1 of 1 gateways have it.").last().waitFor();
  await page.getByRole("button", { name: "Delete polite" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("alert").waitFor();
  await page.keyboard.press("Escape");
  await system.api("DELETE", "/apps/default/policies/books");
  await page.reload();
  await page.getByRole("button", { name: "Delete polite" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("The template polite is deleted.").waitFor();
  await page.getByRole("button", { name: "Undo" }).last().click();
  await page.getByRole("row", { name: /^polite onLimit/ }).waitFor();
  expect(faults).toEqual([]);
  await page.context().close();
});
