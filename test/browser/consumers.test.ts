// Consumers in the console, before the real system.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";

const daily = (quota: number) => [{ name: "daily", algorithm: "fixed-window", quota, window: "1d" }];

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

it("gives a consumer a plan and limits of its own, says what is wrong with them, and keeps what was typed", async () => {
  await system.put({
    name: "books",
    match: { paths: ["/books"] },
    key: ["header:x-user"],
    plans: { free: daily(1), pro: daily(8) },
    planBy: "consumer",
    defaultPlan: "free",
  });
  const limitOf = async () => {
    const { headers } = await ask(`${system.gateways[0]?.url}/books`, { headers: { "x-user": "ann" } });
    return headers["x-ratelimit-limit"];
  };
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/consumers");
  await page.getByRole("button", { name: "Add a consumer" }).click();
  const dialog = page.getByRole("dialog");
  const own = dialog.getByLabel("Limits of its own");
  const store = dialog.getByRole("button", { name: "Store", exact: true });
  await dialog.getByLabel("Id").fill("ann");
  const plan = dialog.getByLabel("Plan");
  await plan.fill("prod");
  await dialog
    .getByText(/^plan: expected a plan of a policy .*, got "prod", for which the default plan holds/)
    .waitFor();
  const offered = await dialog
    .locator("datalist")
    .first()
    .locator("option")
    .evaluateAll((options) => options.map((one) => (one as HTMLOptionElement).value));
  expect(offered).toEqual(["free", "pro"]);
  await plan.fill("pro");
  await dialog.locator(".warning").waitFor({ state: "detached" });
  await dialog.getByLabel("Begin with the limits of").fill("books");
  await dialog.getByRole("button", { name: "Insert" }).click();
  expect(await own.inputValue()).toBe(
    "books:\n  - name: daily\n    algorithm: fixed-window\n    quota: 8\n    window: 1d\n",
  );
  await own.fill("book: [{ name: daily, algorithm: fixed-window, quota: 5, window: 1d }]");
  await dialog.getByText(/^overrides\.book: expected the name of a policy of the app/).waitFor();
  await own.fill("books: [{ name: daily");
  await store.click();
  await dialog.locator(".fault").waitFor();
  await own.fill("books: [{ name: daily, algorithm: fixed-window, quota: none, window: 1d }]");
  await store.click();
  await dialog
    .getByRole("alert")
    .getByText(/^overrides\.books\[0\]\.quota: expected .*, got "none"$/)
    .waitFor();
  await own.fill("books: [{ name: daily, algorithm: fixed-window, quota: 5, window: 1d }]");
  await store.click();
  await page.getByText("ann has the plan pro, by which 1 of 1 gateways decide.").waitFor();
  await page.getByRole("row", { name: /^ann pro books/ }).waitFor();
  expect(await limitOf()).toBe("5");
  await page.goto(`${system.controlUrl}/try?app=default&path=%2Fbooks`);
  await page.getByLabel("Headers").fill("x-user: ann");
  await page.getByText("The consumer ann has the plan pro, and limits of its own.").waitFor();
  await page.getByRole("button", { name: "Ask the counters" }).click();
  await page.getByText("4 of 5", { exact: true }).waitFor();
  await page.getByLabel("Headers").fill("x-user: bob");
  await page.getByText("bob is no consumer of the app, and has the default plan free.").waitFor();
  await page.goto(`${system.controlUrl}/consumers`);
  await page.getByRole("button", { name: "Change ann" }).click();
  expect(await own.inputValue()).toContain("quota: 5");
  await own.fill("");
  await store.click();
  await page.getByRole("row", { name: /^ann pro [^b]/ }).waitFor();
  expect(await limitOf()).toBe("8");
  expect(faults.filter((fault) => !fault.includes("400") && !fault.includes("404"))).toEqual([]);
  await page.context().close();
});

const stored = async (id: string) => JSON.parse((await system.api("GET", `/apps/kept/consumers/${id}`)).body);
const store = async (id: string, terms: object) => {
  expect([200, 201]).toContain((await system.api("PUT", `/apps/kept/consumers/${id}`, terms)).status);
};
const outdated = "Nothing was changed, because something else is stored now than this page showed.";

it("does not overwrite a consumer that is there already, nor what somebody else has changed or deleted meanwhile", async () => {
  const own = { plan: "gold", overrides: { books: daily(9) } };
  expect((await system.api("PUT", "/apps/kept", { realm: {} })).status).toBe(201);
  const { page } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/consumers?app=kept");
  await page.getByText("The app kept has no consumers.", { exact: false }).waitFor();
  await store("acme", own);
  const dialog = page.getByRole("dialog");
  const send = dialog.getByRole("button", { name: "Store", exact: true });
  await page.getByRole("button", { name: "Add a consumer" }).click();
  await dialog.getByLabel("Id").fill("acme");
  await dialog.getByLabel("Plan").fill("free");
  await send.click();
  await dialog.getByRole("alert").getByText(outdated).waitFor();
  expect(await stored("acme")).toMatchObject(own);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  // The list has been read again, so the dialog shows what there is.
  await page.getByRole("button", { name: "Change acme" }).click();
  expect(await dialog.getByLabel("Plan").inputValue()).toBe("gold");
  await store("acme", { plan: "free" });
  await dialog
    .getByLabel("Limits of its own")
    .fill("books: [{ name: daily, algorithm: fixed-window, quota: 7, window: 1d }]");
  await send.click();
  await dialog.getByRole("alert").getByText(outdated).waitFor();
  expect(await stored("acme")).toMatchObject({ plan: "free" });
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("row", { name: /^acme free/ }).waitFor();
  await page.getByRole("button", { name: "Delete acme" }).click();
  await store("acme", own);
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await dialog.getByRole("alert").getByText(outdated).waitFor();
  expect(await stored("acme")).toMatchObject(own);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  // The dialog keeps what was typed, though the list is empty by then.
  await page.getByRole("row", { name: /^acme gold/ }).waitFor();
  await page.getByRole("button", { name: "Change acme" }).click();
  await dialog.getByLabel("Plan").fill("silver");
  expect((await system.api("DELETE", "/apps/kept/consumers/acme")).status).toBe(200);
  await send.click();
  await dialog.getByRole("alert").getByText(outdated).waitFor();
  await page.getByText("The app kept has no consumers.", { exact: false }).waitFor();
  expect(await dialog.getByLabel("Plan").inputValue()).toBe("silver");
  expect((await stored("acme")).code).toBe("consumer-not-found");
  await page.context().close();
});

it("undoes what it stored or deleted, unless somebody else has changed it since", async () => {
  const own = { plan: "gold", overrides: { books: daily(9) } };
  await store("zoe", own);
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/consumers?app=kept");
  const dialog = page.getByRole("dialog");
  const send = dialog.getByRole("button", { name: "Store", exact: true });
  const undo = page.getByRole("button", { name: "Undo" });
  await page.getByRole("button", { name: "Change zoe" }).click();
  await dialog.getByLabel("Plan").fill("free");
  await dialog.getByLabel("Limits of its own").fill("");
  await send.click();
  await page.getByRole("row", { name: /^zoe free [^b]/ }).waitFor();
  await undo.click();
  await page.getByRole("row", { name: /^zoe gold books/ }).waitFor();
  expect(await stored("zoe")).toMatchObject(own);
  await page.getByRole("button", { name: "Delete zoe" }).click();
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText("zoe is deleted.").waitFor();
  expect((await stored("zoe")).code).toBe("consumer-not-found");
  await undo.click();
  await page.getByRole("row", { name: /^zoe gold books/ }).waitFor();
  expect(await stored("zoe")).toMatchObject(own);
  const add = async (id: string) => {
    await page.getByRole("button", { name: "Add a consumer" }).click();
    await dialog.getByLabel("Id").fill(id);
    await dialog.getByLabel("Plan").fill("free");
    await send.click();
    await page.getByRole("row", { name: `${id} free` }).waitFor();
  };
  await add("new");
  await undo.click();
  await page.getByRole("row", { name: "new free" }).waitFor({ state: "detached" });
  expect((await stored("new")).code).toBe("consumer-not-found");
  expect(faults).toEqual([]);
  await add("new");
  await store("new", { plan: "gold" });
  await undo.click();
  await page.getByText("It was not undone").waitFor();
  expect(await stored("new")).toMatchObject({ plan: "gold" });
  await page.context().close();
});

it("shows digests to a viewer in place of ids that may be credentials, and offers no search for them", async () => {
  const { controlUrl } = system;
  const call = async (method: string, path: string, body: object) => {
    const { status, body: text } = await system.api(method, path, body);
    expect([200, 201]).toContain(status);
    return JSON.parse(text);
  };
  await call("PUT", "/apps/shop", { realm: {} });
  const plans = { free: daily(1), pro: daily(8) };
  const byCredential = { key: ["header:x-api-key"], plans, planBy: "consumer", defaultPlan: "free" };
  await call("PUT", "/apps/shop/policies/books", byCredential);
  await call("PUT", "/apps/shop/consumers/key-of-ann", { plan: "pro" });
  const { token } = await call("POST", "/tokens", { name: "viewer", app: "shop", role: "viewer" });
  const { page, faults } = await newPage(browser);
  await signIn(page, controlUrl, token, "/consumers?app=shop");
  await page.getByText("The ids may be credentials of clients.").waitFor();
  await page.getByRole("row", { name: /hmac:[0-9a-f]{12}/ }).waitFor();
  await page.getByLabel("Ids that begin with").waitFor({ state: "detached" });
  expect(await page.getByLabel("Plan").count()).toBe(1);
  expect(await page.content()).not.toContain("key-of-ann");
  expect(faults).toEqual([]);
  await page.context().close();
});
