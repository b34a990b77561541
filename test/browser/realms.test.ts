// The console says which policies no request reaches, and admins set realms there.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { consoleDist, requireConsoleBuild } from "../../launch/console-build.ts";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import {
  adminToken,
  perSecond,
  type Running,
  startControlPlane,
} from "../fixtures/servers/control-plane-under-test.ts";
import { untilPasses } from "../fixtures/until.ts";

let browser: Browser;

beforeAll(async () => {
  await requireConsoleBuild();
  browser = await startBrowser();
});
afterAll(() => browser?.close());

/** With an app, which has a policy that names no host and no path. */
async function startWithApp(app: string, body: object): Promise<Running> {
  const running = await startControlPlane({}, { consoleDirectory: consoleDist });
  expect((await running.call("PUT", `/apps/${app}`, { body })).status).toBe(201);
  expect((await running.call("PUT", `/apps/${app}/policies/books`, { body: perSecond(1) })).status).toBe(201);
  return running;
}

it("says of an app without a realm that no request reaches its policies, and an admin gives it one", async () => {
  const running = await startWithApp("checks", {});
  const { page, faults } = await newPage(browser);
  await signIn(page, running.url, adminToken, "/policies?app=checks");
  const row = page.getByRole("row", { name: "books" });
  const why = page.getByText("The app checks has no realm, so no request of a client reaches its policies");
  await why.waitFor();
  expect(await row.textContent()).toContain("no request");
  expect(await row.textContent()).toContain("Checks only");
  expect(await row.textContent()).not.toContain("Enforced");

  await row.getByRole("link", { name: "books" }).click();
  await why.waitFor();
  await page.getByRole("heading", { name: "books" }).waitFor();
  expect(await page.locator("main .mode").textContent()).toBe("Checks only");

  await page.goto(`${running.url}/try?app=checks`);
  await why.waitFor();
  await page.getByRole("heading", { name: "It meets no policy" }).waitFor();
  await page
    .getByRole("cell", { name: "The app has no realm, so no request of a client reaches the policy." })
    .waitFor();

  await page.getByRole("link", { name: "Set the realm" }).click();
  await page.getByRole("button", { name: "Change the realm" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Paths").fill("/api/checks\n");
  await dialog.getByRole("button", { name: "Store" }).click();
  await dialog.getByText("The policy books would be outside of the realm.").waitFor();
  await dialog.getByLabel("Paths").fill("");
  await dialog.getByRole("button", { name: "Store" }).click();
  await why.waitFor({ state: "detached" });
  await untilPasses(async () => expect(await row.textContent()).toContain("Enforced"));
  expect(await row.textContent()).toContain("every request");
  expect((await running.call("GET", "/apps/checks")).body).toMatchObject({ realm: {}, realmState: "set" });
  await page.goto(`${running.url}/try?app=checks`);
  await page.getByRole("heading", { name: "It meets 1 policy" }).waitFor();
  expect(faults).toEqual([]);
  await page.context().close();
});

it("shows editors the realm, which only an admin changes, and a change can be undone", async () => {
  const running = await startWithApp("crm", { realm: { redirects: ["@cached"] } });
  const { token } = (await running.call("POST", "/tokens", { body: { name: "x", app: "crm", role: "editor" } })).body;
  const editor = await newPage(browser);
  await signIn(editor.page, running.url, token, "/policies");
  const realmSeen = editor.page.getByRole("region", { name: "Realm" });
  await realmSeen.getByText("They may also redirect to @cached.").waitFor();
  await realmSeen.getByText("An admin can change it.").waitFor();
  expect(await realmSeen.getByRole("button").count()).toBe(0);
  await editor.page.context().close();

  const { page } = await newPage(browser);
  await signIn(page, running.url, adminToken, "/policies?app=crm");
  await page.getByRole("button", { name: "Change the realm" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Hosts").fill("crm.example.com\n");
  await dialog.getByLabel("Redirects").fill("@cached\n@other");
  // The policy matches every host.
  await dialog.getByRole("button", { name: "Store" }).click();
  await dialog.getByText("The policy books would be outside of the realm.").waitFor();
  await dialog.getByLabel("Hosts").fill("");
  await dialog.getByRole("button", { name: "Store" }).click();
  const realm = async () => (await running.call("GET", "/apps/crm")).body.realm;
  await untilPasses(async () => expect(await realm()).toEqual({ redirects: ["@cached", "@other"] }));
  await page.getByRole("button", { name: "Undo" }).click();
  await untilPasses(async () => expect(await realm()).toEqual({ redirects: ["@cached"] }));
  await page.context().close();
});
