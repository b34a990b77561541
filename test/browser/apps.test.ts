// Which app the console opens, and where it says that something is refused.

import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { consoleDist, requireConsoleBuild } from "../../launch/console-build.ts";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import {
  adminToken,
  perSecond,
  type Running,
  startControlPlane,
} from "../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../fixtures/servers/gateway-double.ts";
import { untilPasses } from "../fixtures/until.ts";

let browser: Browser;

beforeAll(async () => {
  await requireConsoleBuild();
  browser = await startBrowser();
});
afterAll(() => browser?.close());

const startWithConsole = () => startControlPlane({}, { consoleDirectory: consoleDist });

const opens = (page: Page, app: string) =>
  untilPasses(async () => expect(await page.getByLabel("App").inputValue()).toBe(app));

async function putApp({ call }: Running, app: string, body: object): Promise<void> {
  expect((await call("PUT", `/apps/${app}`, { body })).status).toBeLessThan(300);
  expect((await call("PUT", `/apps/${app}/policies/books`, { body: perSecond(1) })).status).toBe(201);
}

it("opens the app that was used last, else the one that refuses most, and the list says where something is refused", async () => {
  const running = await startWithConsole();
  for (const app of ["bank", "shop", "wiki"]) await putApp(running, app, { realm: {} });
  const gateway = await connectGateway(running, "gw-1");
  const nowMs = Date.now();
  const none = { allowed: 0, refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };
  const policies = [
    { app: "bank", policy: "books", fromMs: nowMs - 500, ...none, allowed: 5_000 },
    { app: "shop", policy: "books", fromMs: nowMs - 500, ...none, refused: 1_280 },
    { app: "wiki", policy: "books", fromMs: nowMs - 500, ...none, refused: 3 },
  ];
  gateway.say({ type: "activity", nowMs, workers: [{ toMs: nowMs, policies, keys: [] }] });
  await gateway.untilHeard();

  const { page, faults } = await newPage(browser);
  await signIn(page, running.url, adminToken);
  await opens(page, "shop");
  const options = page.getByLabel("App").locator("option");
  await untilPasses(async () =>
    expect(await options.allTextContents()).toEqual([
      "bank",
      "default",
      "shop: 1,280 refused within 2 minutes",
      "wiki: 3 refused within 2 minutes",
    ]),
  );
  // Nobody has chosen it: it is not kept, and another page stays with it.
  await page.getByRole("link", { name: "Bans" }).click();
  await opens(page, "shop");
  expect(await keptIn(page.context(), running.url)).not.toContain("shop");

  await page.getByLabel("App").selectOption("wiki");
  await page.getByRole("link", { name: "Sluice" }).click();
  await opens(page, "wiki");
  const later = await page.context().newPage();
  await later.goto(running.url);
  await opens(later, "wiki");
  await later.goto(`${running.url}/policies/bank/books`);
  await later.getByRole("heading", { name: "books" }).waitFor();
  await later.goto(`${running.url}/policies`);
  await opens(later, "bank");
  // An app that is not there is not used.
  await later.goto(`${running.url}/policies?app=none`);
  await later.getByText('There is no app "none".').first().waitFor();
  await later.goto(`${running.url}/policies`);
  await opens(later, "bank");
  expect(faults).toEqual([]);
  await page.context().close();
});

it("opens only an app that one may see", async () => {
  const running = await startWithConsole();
  for (const app of ["bank", "shop", "wiki"]) await putApp(running, app, { realm: {} });
  await running.call("POST", "/members", { body: { name: "ann", roles: { shop: "viewer", wiki: "viewer" } } });
  const { token } = (await running.call("POST", "/tokens", { body: { name: "x", member: "ann" } })).body;
  const { page } = await newPage(browser);
  await signIn(page, running.url, adminToken, "/overview?app=bank");
  await opens(page, "bank");
  await untilPasses(async () => expect(await keptIn(page.context(), running.url)).toContain("bank"));
  await page.context().clearCookies();
  await signIn(page, running.url, token);
  await opens(page, "shop");
  expect(await page.getByLabel("App").locator("option").allTextContents()).toEqual(["shop", "wiki"]);
  await page.context().close();
});

it("fits 390 px, however long the name of an app is", async () => {
  const running = await startWithConsole();
  const app = `${"long-".repeat(12)}app`;
  await putApp(running, app, { realm: {} });
  const { page } = await newPage(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, running.url, adminToken, `/bans?app=${app}`);
  await opens(page, app);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  await page.context().close();
});

async function keptIn(context: BrowserContext, url: string): Promise<string> {
  const { origins } = await context.storageState();
  const own = origins.find(({ origin }) => origin === new URL(url).origin);
  return JSON.stringify(own?.localStorage ?? []);
}
