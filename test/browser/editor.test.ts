// Making and changing a policy in the console, before the real system: by form, as YAML, by keyboard alone, two people at once, and as somebody
// who may only look.

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import { askAtOnce } from "../fixtures/clients/requests.ts";
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

async function editorOf(path: string, token = adminToken): Promise<{ page: Page; faults: string[] }> {
  const made = await newPage(browser);
  await signIn(made.page, system.controlUrl, token, path);
  await made.page.getByRole("textbox", { name: "YAML" }).waitFor();
  return made;
}
const limitOf = (name: string, quota: number) => ({
  name,
  match: { paths: [`/${name}`] },
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});
const stored = async (name: string) =>
  JSON.parse((await system.api("GET", `/apps/default/policies/${name}`)).body) as Record<string, unknown>;
const admits = (name: string, count: number) =>
  until(`/${name} admits ${count}`, async () => {
    const { 429: refused = 0 } = await askAtOnce([`${system.gateways[0]?.url}/${name}`], count + 5);
    return refused === 5;
  });

it("makes a policy by form: shows what is wrong while one types, stores it in shadow mode, then enforces it; undo deletes it", async () => {
  const { page, faults } = await editorOf("/policies/new?from=perUser");
  await page.getByLabel("Name", { exact: true }).fill("Films");
  await page.getByText("name: expected a name of a-z").waitFor();
  expect(await page.getByRole("button", { name: "Save and enforce" }).isDisabled()).toBe(true);
  await page.getByLabel("Name", { exact: true }).fill("films");
  await page.getByLabel("Paths").fill("/films");
  await page.getByLabel("Key", { exact: true }).fill("");
  await page.getByLabel("Quota").fill("7");
  await page.getByLabel("Window", { exact: true }).fill("366d");
  await page.getByText("The policy is valid.").waitFor();
  await page.getByRole("button", { name: "Save in shadow mode" }).click();
  await page.getByText(/films is in shadow mode from revision \d+ on/).waitFor();
  await page.getByText("1 of 1 connected gateway has revision").waitFor();
  expect(new URL(page.url()).pathname).toBe("/policies/default/films");
  expect(await stored("films")).toMatchObject({ mode: "shadow", limits: [{ quota: 7 }] });
  expect(await askAtOnce([`${system.gateways[0]?.url}/films`], 10)).toEqual({ 200: 10 });
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText(/films is enforced from revision/).waitFor();
  expect(await stored("films")).not.toHaveProperty("mode");
  await page.getByRole("button", { name: "Undo" }).last().click();
  await until("it is in shadow mode again", async () => (await stored("films"))["mode"] === "shadow");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByText("Gateways stop enforcing it within a second.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("films is deleted.").waitFor();
  expect((await system.api("GET", "/apps/default/policies/films")).status).toBe(404);
  await page.getByRole("button", { name: "Undo" }).last().click();
  await page.getByRole("link", { name: "films" }).waitFor();
  expect(await stored("films")).toMatchObject({ limits: [{ quota: 7 }] });
  expect(faults).toEqual([]);
  await page.context().close();
});

it("begins a policy with one of the library, which says what to change, or takes it by name", async () => {
  const { page, faults } = await editorOf("/policies/new");
  await page.getByRole("button", { name: "Login protection, by account" }).click();
  await page.getByText("Change form:account to the name of your form's field.").waitFor();
  expect(new URL(page.url()).searchParams.get("template")).toBe("login-protection");
  await page.getByLabel("Name", { exact: true }).fill("sign-in");
  await page.getByLabel("Paths").fill("/sign-in");
  await page.getByLabel("Key", { exact: true }).fill("form:user");
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText(/sign-in is enforced from revision/).waitFor();
  expect(await stored("sign-in")).toMatchObject({
    match: { methods: ["POST"], paths: ["/sign-in"] },
    key: ["form:user"],
    onMissingKey: "deny",
    onLimit: { status: 429 },
  });
  await page.goto(`${system.controlUrl}/policies/new`);
  const yaml = "name: by-name\ntemplate: download-quota\nmatch: { paths: [/by-name] }\n";
  await page.getByRole("textbox", { name: "YAML" }).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.type(yaml);
  await page.getByText("The policy is valid.").waitFor();
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText(/by-name is enforced from revision/).waitFor();
  expect(await stored("by-name")).toMatchObject({ match: { paths: ["/by-name"] }, cost: { from: "response-bytes" } });
  expect(faults).toEqual([]);
  await page.context().close();
});

it("form and YAML are in step, and a dry run changes nothing", async () => {
  await system.put(limitOf("music", 5));
  const { page, faults } = await editorOf("/policies/default/music");
  const yaml = page.getByRole("textbox", { name: "YAML" });
  await page.getByLabel("Quota").fill("9");
  await untilPasses(async () => expect(await yaml.textContent()).toContain("quota: 9"));
  await yaml.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("description: by hand\n");
  await untilPasses(async () => expect(await page.getByLabel("Description").inputValue()).toBe("by hand"));
  await page.keyboard.type("mo");
  await page.getByRole("option", { name: "mode" }).waitFor();
  // A list that has just opened takes no Enter for 75 ms, as nobody can have meant it.
  await page.waitForTimeout(100);
  await page.keyboard.press("Enter");
  await page.keyboard.type("neverhood");
  await page
    .getByText(/mode: expected .*enforce/)
    .first()
    .waitFor();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("limits: [");
  await page.getByText("The YAML cannot be read").waitFor();
  await page.keyboard.press("Control+z");
  await page.getByLabel("Mode").selectOption("shadow");
  await page.getByText("The policy is valid.").waitFor();
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByText("1 connected gateway would get this change.").waitFor();
  await page.getByRole("dialog").getByText("+description: by hand").waitFor();
  await page.keyboard.press("Escape");
  expect(await stored("music")).toMatchObject({ limits: [{ quota: 5 }] });
  // Who replaces a whole coloured text lets Chromium put a style of its own on what is typed. The policy stops that, and nothing is lost.
  expect(faults.filter((fault) => !fault.startsWith("Applying inline style"))).toEqual([]);
  await page.context().close();
});

it("who types fast on a slow machine loses nothing", async () => {
  await system.put(limitOf("slow", 5));
  const { page, faults } = await editorOf("/policies/default/slow");
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: 6 });
  const yaml = page.getByRole("textbox", { name: "YAML" });
  await yaml.click();
  await page.keyboard.press("Control+End");
  const words = "every one of these words is typed without a pause and stays";
  // All keys are on their way before the first one is answered.
  await Promise.all([...`description: ${words}`].map((text) => session.send("Input.insertText", { text })));
  await session.send("Emulation.setCPUThrottlingRate", { rate: 1 });
  await untilPasses(async () => expect(await page.getByLabel("Description").inputValue()).toBe(words));
  expect(await yaml.textContent()).toContain(words);
  expect(faults).toEqual([]);
  await page.context().close();
});

it("has every field of a policy in the form, also what few policies need", async () => {
  await system.put({ ...limitOf("rare", 5), key: ["header:x-partner"] });
  const { page, faults } = await editorOf("/policies/default/rare");
  await page.getByText("More: headers, priority").click();
  const fill = (label: string, text: string) => page.getByLabel(label, { exact: true }).fill(text);
  await fill("Headers", "x-plan: free, trial\nx-eu: yes");
  await fill("Priority", "7");
  await fill("Exempt addresses", "10.0.0.0/8\n192.0.2.7/32");
  await fill("Exempt keys", "boss");
  await fill("Time zone of the schedule", "Europe/Berlin");
  await fill("Schedule", "mon tue 08:00-18:00\n20:00-22:00");
  await page.getByRole("button", { name: "Add an override" }).click();
  await fill("Key of the override", "acme");
  await page.getByLabel("Quota").nth(1).fill("50");
  await fill("Status", "503");
  await fill("Body", "Please wait.");
  await fill("Headers of the answer", "x-docs: /limits");
  await page.getByText("The policy is valid.").waitFor();
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText(/rare is enforced from revision/).waitFor();
  const document = await stored("rare");
  expect(document).toMatchObject({
    match: { headers: { "x-plan": ["free", "trial"], "x-eu": ["yes"] } },
    priority: 7,
    exempt: { cidrs: ["10.0.0.0/8", "192.0.2.7/32"], keys: [["boss"]] },
    schedule: {
      timezone: "Europe/Berlin",
      windows: [
        { days: ["mon", "tue"], from: "08:00", to: "18:00" },
        { from: "20:00", to: "22:00" },
      ],
    },
    overrides: [{ key: ["acme"], limits: [{ quota: 50 }] }],
    onLimit: { status: 503, body: "Please wait.", headers: ["x-docs: /limits"] },
  });
  await page.reload();
  expect(await page.getByLabel("Schedule", { exact: true }).inputValue()).toBe("mon tue 08:00-18:00\n20:00-22:00");
  await page.getByRole("button", { name: "Remove override 1" }).click();
  await untilPasses(async () =>
    expect(await page.getByRole("textbox", { name: "YAML" }).textContent()).not.toContain("acme"),
  );
  expect(faults).toEqual([]);
  await page.context().close();
});

it("says what a policy would do before it is stored, beside what is in force, and what a client would see", async () => {
  await system.put(limitOf("forecast", 100));
  const { page, faults } = await editorOf("/policies/default/forecast");
  const panel = page.getByRole("region", { name: "What it would do" });
  await panel.getByText("one gateway with one worker").waitFor();
  await panel.getByLabel("Traffic").selectOption("steady");
  await panel.getByLabel("Requests per second").fill("10");
  await panel.getByLabel("For", { exact: true }).selectOption("60");
  const admitted = async (label: string) => {
    const text = await panel
      .locator("div", { has: page.getByText(label, { exact: true }) })
      .last()
      .textContent();
    return Number(/(\d+) admitted/.exec(text ?? "")?.[1]);
  };
  // A forecast of 90,000 requests takes a slow machine a second.
  await untilPasses(async () => expect(await admitted("This draft")).toBe(100));
  await page.getByLabel("Quota").fill("250");
  await untilPasses(async () => expect(await admitted("This draft")).toBe(250));
  expect(await admitted("In force now")).toBe(100);
  // Each of these gives up the forecast before it, which takes longer than the pause between them.
  await panel.getByLabel("Requests per second").fill("1500");
  for (const quota of ["300", "350", "400", "450"]) {
    await page.getByLabel("Quota").fill(quota);
    await page.waitForTimeout(150);
  }
  await untilPasses(async () => expect(await admitted("This draft")).toBe(450));
  expect(page.workers()).toHaveLength(1);
  await page.getByLabel("Quota").fill("250");
  await untilPasses(async () => expect(await admitted("This draft")).toBe(250));
  await panel.getByText("HTTP/1.1 429").waitFor();
  await panel.getByText('RateLimit: "default";r=249').waitFor();
  await panel.getByLabel("Traffic").selectOption("drawn");
  await panel.getByLabel("Point 1 of 8").focus();
  await page.keyboard.press("End");
  await page.getByLabel("Quota").fill("none");
  await panel.getByText("Mend the policy first").waitFor();
  expect(faults).toEqual([]);
  await page.context().close();
});

it("by keyboard alone: from the list to a policy that is enforced", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/policies");
  await page.getByRole("link", { name: "New policy" }).waitFor();
  const focused = () =>
    page.evaluate(() => {
      const element = document.activeElement;
      const label =
        element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement
          ? element.labels?.[0]?.textContent
          : undefined;
      return label ?? element?.getAttribute("aria-label") ?? element?.textContent ?? "";
    });
  const tabTo = async (name: string) => {
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press("Tab");
      if ((await focused()) === name) return;
    }
    throw new Error(`Tab does not reach ${name}`);
  };
  await tabTo("New policy");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "New policy" }).waitFor();
  await tabTo("Name");
  await page.keyboard.type("keyboard");
  await tabTo("Paths");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("/keyboard");
  await tabTo("Key");
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await tabTo("Quota");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("4");
  await tabTo("Save and enforce");
  await page.keyboard.press("Enter");
  await page.getByText(/keyboard is enforced from revision/).waitFor();
  expect(await stored("keyboard")).toMatchObject({
    match: { paths: ["/keyboard"] },
    limits: [{ quota: 4, window: "1m" }],
  });
  expect(faults).toEqual([]);
  await page.context().close();
});

it("two people edit one policy: the second one sees both versions, chooses, and nothing of either is lost", async () => {
  await system.put(limitOf("shared", 5));
  const { page, faults } = await editorOf("/policies/default/shared");
  await page.getByLabel("Quota").fill("6");
  await page.getByLabel("Description").fill("mine");
  await system.put({ ...limitOf("shared", 8), priority: 3 });
  await page.getByRole("button", { name: "Save and enforce" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("One field was changed by both of you.").waitFor();
  await dialog.getByText("limits.0.quota").waitFor();
  await dialog.getByLabel(/Theirs/).check();
  await dialog.getByRole("button", { name: "Merge" }).click();
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByText(/shared is enforced from revision/).waitFor();
  expect(await stored("shared")).toMatchObject({ description: "mine", priority: 3, limits: [{ quota: 8 }] });
  await admits("shared", 8);
  expect(faults).toEqual([]);
  await page.context().close();
});

it("what the control plane refuses is said with its field, and nothing that was typed is lost", async () => {
  const { page, faults } = await editorOf("/policies/new");
  await page.getByLabel("Name", { exact: true }).fill("for-the-fleet");
  await page.getByLabel("Scope").selectOption("cluster");
  await page.getByRole("button", { name: "Save and enforce" }).click();
  await page.getByRole("alert").getByText("scope").first().waitFor();
  expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("for-the-fleet");
  expect(faults).toEqual([]);
  page.once("dialog", (dialog) => void dialog.dismiss());
  await page.getByRole("link", { name: "Overview" }).click();
  expect(new URL(page.url()).pathname).toBe("/policies/new");
  await page.context().close();
});

it("a viewer sees a policy, cannot change it, and the control plane refuses, too", async () => {
  await system.put(limitOf("looked-at", 5));
  const { body } = await system.api("POST", "/tokens", { name: "looks", role: "viewer", app: "default" });
  const { token } = JSON.parse(body) as { token: string };
  const { page, faults } = await editorOf("/policies/default/looked-at", token);
  await page.getByText("You may look at this policy, and not change it.").waitFor();
  expect(await page.getByLabel("Quota").isDisabled()).toBe(true);
  expect(await page.getByRole("button", { name: "Save and enforce" }).count()).toBe(0);
  expect(await page.getByRole("button", { name: "Delete" }).count()).toBe(0);
  const status = await page.evaluate(async () => {
    const session = await (await fetch("/api/v1/session")).json();
    const headers = { "x-csrf-token": session.csrfToken };
    return (await fetch("/api/v1/apps/default/policies/looked-at", { method: "DELETE", headers })).status;
  });
  expect(status).toBe(403);
  expect(faults).toEqual([]);
  await page.context().close();
});
