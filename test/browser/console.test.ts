// The console in a real browser, before the real system: signing in, what the pages show of live traffic, both languages and themes, and
// what a page may not do.

import { AxeBuilder } from "@axe-core/playwright";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import { putNetworks } from "../fixtures/clients/network-lists.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";

let system: System;
let browser: Browser;

beforeAll(async () => {
  system = await System.start();
  await system.put({
    name: "books",
    description: "<img src=x onerror=alert(1)>",
    match: { paths: ["/books"] },
    limits: [{ algorithm: "fixed-window", quota: 3, window: "366d" }],
  });
  // Pages with something on them have more to get wrong.
  const store = async (method: string, path: string, body: object) =>
    expect((await system.api(method, path, body)).status).toBeLessThan(300);
  await store("PUT", "/apps/default/templates/polite", { onLimit: { action: "reject", status: 429 } });
  await store("POST", "/apps/default/bans", { cidr: "192.0.2.0/24", for: "1h", reason: "<b>why</b>" });
  await store("PUT", "/apps/default/consumers/<u>ann<%2Fu>", { plan: "pro" });
  await store("POST", "/members", { name: "ann", roles: { default: "owner" } });
  await store("POST", "/tokens", { name: "<i>robot</i>", app: "default", role: "viewer" });
  await putNetworks(system, "default", "office", ["192.0.2.0/24"]);
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await system?.stop();
});

it("asks who one is, says what was wrong with a token, and then shows the page that was asked for", async () => {
  const { page, faults } = await newPage(browser);
  await page.goto(`${system.controlUrl}/policies?q=boo`);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("Enter a token.").waitFor();
  await page.getByLabel("Token").fill("a-token-of-nobody");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("token").waitFor();
  await page.getByLabel("Token").fill(adminToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("link", { name: "books" }).waitFor();
  expect(new URL(page.url()).search).toBe("?q=boo");
  // The token is nowhere that anybody else could read it.
  const kept = await page.evaluate(() =>
    JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href]),
  );
  expect(kept).not.toContain(adminToken);
  expect(faults).toEqual([]);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  await page.goto(`${system.controlUrl}/policies`);
  await page.getByLabel("Token").waitFor();
  await page.context().close();
});

it("the first load, from the sign-in page to the overview, is at most 200 kB compressed", async () => {
  for (const locale of ["en-US", "zh-CN"]) {
    const { page } = await newPage(browser, { locale });
    const network = await page.context().newCDPSession(page);
    await network.send("Network.enable");
    let bytes = 0;
    network.on("Network.loadingFinished", ({ encodedDataLength }) => {
      bytes += encodedDataLength;
    });
    await page.goto(`${system.controlUrl}/`);
    await page.locator("form input").fill(adminToken);
    await page.keyboard.press("Enter");
    await page.locator('[data-result="refused"]').waitFor();
    await page.locator(".uplot").first().waitFor();
    // It counts what it says it counts: the page's own code is more than this.
    expect(bytes, locale).toBeGreaterThan(50_000);
    expect(bytes, locale).toBeLessThanOrEqual(200_000);
    await page.context().close();
  }
});

it("refusals are in the chart within two seconds of being counted", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken);
  await page.getByText("Live", { exact: true }).waitFor();
  const refused = page.locator('[data-result="refused"]');
  expect(await refused.textContent()).toBe("0/s");
  let stop = false;
  const firstRefused = Promise.withResolvers<void>();
  const load = (async () => {
    while (!stop) {
      const { status } = await ask(`${system.gateways[0]?.url}/books`);
      if (status === 429) firstRefused.resolve();
    }
  })();
  await firstRefused.promise;
  await expect.poll(() => refused.textContent(), { timeout: 2_000, interval: 50 }).not.toBe("0/s");
  stop = true;
  await load;
  expect(faults).toEqual([]);
  await page.context().close();
});

it("text that somebody stored is text, and nothing runs that is not the console's own", async () => {
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/policies/default/books");
  await page.getByRole("textbox", { name: "YAML" }).getByText("onerror=alert(1)").waitFor();
  expect(await page.locator("img[src=x]").count()).toBe(0);
  for (const [path, text] of [
    ["/policies/default/books", "onerror=alert(1)"],
    ["/tokens", "<i>robot</i>"],
    ["/bans", "<b>why</b>"],
    ["/consumers", "<u>ann</u>"],
    ["/audit", "<i>robot</i>"],
    ["/history/1", "onerror=alert(1)"],
  ] as const) {
    await page.goto(system.controlUrl + path);
    await page.getByText(text).first().waitFor();
    expect(await page.locator("main :is(img, i, b)").count(), path).toBe(0);
  }
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "globalThis.hasRun = true";
    document.body.append(script);
  });
  expect(await page.evaluate(() => "hasRun" in globalThis)).toBe(false);
  expect(faults.filter((fault) => !fault.includes("Content Security Policy"))).toEqual([]);
  expect(faults).toHaveLength(1);
  const answer = await fetch(system.controlUrl);
  expect(answer.headers.get("content-security-policy")).not.toMatch(/unsafe|\*/);
  await page.context().close();
});

it("another site's page changes nothing, though the browser has a session, and the token is in no URL and no log", async () => {
  const { page } = await newPage(browser);
  const urls: string[] = [];
  page.on("request", (request) => urls.push(request.url()));
  await signIn(page, system.controlUrl, adminToken);
  // Another port is another origin, and the same site: the browser sends the session's cookie along.
  const attack = async (path: string) => {
    await page.goto(`${system.upstreamUrl}/any`);
    const [answer] = await Promise.all([
      page.waitForResponse(system.controlUrl + path),
      page.evaluate((url) => {
        const form = document.createElement("form");
        Object.assign(form, { method: "POST", enctype: "text/plain", action: url });
        document.body.append(form);
        form.submit();
      }, system.controlUrl + path),
    ]);
    expect((await answer.request().allHeaders())["cookie"]).toContain("sluice-session");
    expect(await answer.json()).toMatchObject({ status: 403, code: "cross-site-request" });
  };
  const before = await system.api("GET", "/audit?limit=1");
  await attack("/api/v1/apps/default/bans");
  await attack("/api/v1/tokens");
  await attack("/api/v1/members");
  await page.waitForTimeout(300);
  expect((await system.api("GET", "/audit?limit=1")).body).toBe(before.body);
  expect(urls.join("\n")).not.toContain(adminToken);
  expect(system.controlPlaneOutput).not.toContain(adminToken);
  expect(system.controlPlaneOutput).toContain("control plane on");
  await page.context().close();
});

const pages = [
  "/overview",
  "/policies",
  "/policies/new",
  "/policies/new?template=login-protection",
  "/policies/default/books",
  "/keys",
  "/keys?policy=books&key=[]",
  "/try?path=/books",
  "/templates",
  "/bans",
  "/networks",
  "/consumers",
  "/history",
  "/history/1",
  "/audit",
  "/members",
  "/tokens",
  "/gateways/gateway-1",
  "/gateways",
] as const;

/** Colours are all that a theme changes. The pages have no frames, and without those axe is quicker by its older way. */
async function accessibilityFaults(page: Page, part = "html"): Promise<string[]> {
  const axe = () => new AxeBuilder({ page }).include(part).setLegacyMode();
  await page.emulateMedia({ colorScheme: "light" });
  const light = await axe().analyze();
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await axe().withRules(["color-contrast"]).analyze();
  await page.emulateMedia({ colorScheme: "light" });
  return [light, dark].flatMap(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`));
}

it.each([
  ["en", "en", "Gateways"],
  ["zh", "zh-Hans", "网关"],
])("every page is accessible in both themes, and fits 390 px: %s", async (language, tag, heading) => {
  const { page, faults } = await newPage(browser, { viewport: { width: 390, height: 844 } });
  const check = async (where: string) => {
    expect(await accessibilityFaults(page), where).toEqual([]);
    const [width, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth] as const);
    expect(width, where).toBeLessThanOrEqual(room);
  };
  await page.goto(`${system.controlUrl}/sign-in`);
  await page.getByLabel("Token").waitFor();
  await check("/sign-in");
  await signIn(page, system.controlUrl, adminToken);
  await page.getByLabel(/Language|语言/).selectOption(language);
  for (const path of pages) {
    await page.goto(`${system.controlUrl}${path}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.locator("main .card, main .state").first().waitFor();
    await page.waitForFunction(() => document.querySelector(".loading") === null);
    await check(path);
  }
  expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe(heading);
  expect(await page.evaluate(() => document.documentElement.lang)).toBe(tag);
  expect(faults).toEqual([]);
  await page.context().close();
});

it("every dialog is accessible, has the focus, and hands it back", async () => {
  const { page, faults } = await newPage(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, system.controlUrl, adminToken);
  const dialogs = [
    ["/policies/default/books", "Delete"],
    ["/policies/default/books", "Dry run"],
    ["/templates", "New template"],
    ["/templates", "View login-protection"],
    ["/bans", "Ban a network"],
    ["/bans", "End the ban of 192.0.2.0/24"],
    ["/networks", "Add a list"],
    ["/networks", "View office"],
    ["/networks", "Delete office"],
    ["/networks", "Change who is exempt"],
    ["/consumers", "Add a consumer"],
    ["/consumers", "Delete <u>ann</u>"],
    ["/history/1", "Bring all of default back to this"],
    ["/audit", "Show"],
    ["/members", "Add a member"],
    ["/members", "Delete ann"],
    ["/tokens", "Make a token"],
    ["/tokens", "Delete <i>robot</i>"],
  ] as const;
  for (const [path, opener] of dialogs) {
    await page.goto(system.controlUrl + path);
    if (opener === "Dry run") await page.getByLabel("Description").fill("changed");
    const button = page.getByRole("button", { name: opener, exact: true }).first();
    await button.click();
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    expect(await dialog.evaluate((element) => element.contains(document.activeElement)), opener).toBe(true);
    expect(await accessibilityFaults(page, "dialog"), opener).toEqual([]);
    // By its own button, and not by Escape, with which the browser would do it.
    await dialog
      .getByRole("button", { name: /^(Cancel|Close)$/ })
      .first()
      .click();
    await dialog.waitFor({ state: "detached" });
    expect(await button.evaluate((element) => element === document.activeElement), opener).toBe(true);
    if (opener === "Dry run") page.once("dialog", (question) => void question.accept());
  }
  expect(faults).toEqual([]);
  await page.context().close();
});

it("says that the control plane does not answer, and goes on when it is back", async () => {
  const { page } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken);
  await page.getByText("Nothing needs your attention.").waitFor();
  await system.killControlPlane();
  await page.getByText("The control plane does not answer. Gateways keep").waitFor();
  await system.startControlPlane();
  await page.getByText("Nothing needs your attention.").waitFor();
  await page.context().close();
});
