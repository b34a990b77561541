// The console in a real browser, before the real system: signing in, what the pages show of live traffic, and what a page may not do.

import { expect, it } from "vitest";
import { newPage, signIn, signOut } from "../fixtures/clients/console-page.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { adminToken } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";
import { fullSystemAndBrowser } from "./full-system.ts";

const world = fullSystemAndBrowser();

it("asks who one is, says what was wrong with a token, and then shows the page that was asked for", async () => {
  const { page, faults } = await newPage(world.browser);
  await page.goto(`${world.system.controlUrl}/policies?q=boo`);
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
  await signOut(page);
  await page.goto(`${world.system.controlUrl}/policies`);
  await page.getByLabel("Token").waitFor();
  await page.context().close();
});

it("the first load, from the sign-in page to the overview, is at most 200 kB compressed", async () => {
  for (const locale of ["en-US", "zh-CN"]) {
    const { page } = await newPage(world.browser, { locale });
    const network = await page.context().newCDPSession(page);
    await network.send("Network.enable");
    let bytes = 0;
    network.on("Network.loadingFinished", ({ encodedDataLength }) => {
      bytes += encodedDataLength;
    });
    await page.goto(`${world.system.controlUrl}/`);
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

it("refusals are in the chart while they happen", async () => {
  const { page, faults } = await newPage(world.browser);
  await signIn(page, world.system.controlUrl, adminToken);
  await page.getByText("Live", { exact: true }).waitFor();
  const refused = page.locator('[data-result="refused"]');
  expect(await refused.textContent()).toBe("0/s");
  let stop = false;
  const firstRefused = Promise.withResolvers<void>();
  const load = (async () => {
    while (!stop) {
      const { status } = await ask(`${world.system.gateways[0]?.url}/books`);
      if (status === 429) firstRefused.resolve();
    }
  })();
  await firstRefused.promise;
  await until("refusals are in the chart", async () => (await refused.textContent()) !== "0/s");
  stop = true;
  await load;
  expect(faults).toEqual([]);
  await page.context().close();
});

it.each([
  ["en-US", "30 days", "24 hours", /requests of each hour$/, /requests of each minute$/],
  ["zh-CN", "30 天", "24 小时", /^每小时.*请求$/, /^每分钟.*请求$/],
])("traffic is shown for a day and for a month: %s", async (locale, month, day, byHour, byMinute) => {
  const { page, faults } = await newPage(world.browser, { locale });
  await page.goto(`${world.system.controlUrl}/policies/default/books`);
  await page.locator("form input").fill(adminToken);
  await page.keyboard.press("Enter");
  const choice = page.locator("select").filter({ hasText: month });
  for (const [label, step, chart] of [
    [month, "hour", byHour],
    [day, "minute", byMinute],
  ] as const) {
    const asked = page.waitForResponse((response) => response.url().includes(`step=${step}`));
    await choice.selectOption({ label });
    expect((await (await asked).json()).points).not.toEqual([]);
    await page.getByRole("img", { name: chart }).locator("canvas").waitFor();
  }
  expect(faults).toEqual([]);
  await page.context().close();
});

it("text that somebody stored is text, and nothing runs that is not the console's own", async () => {
  const { page, faults } = await newPage(world.browser);
  await signIn(page, world.system.controlUrl, adminToken, "/policies/default/books");
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
    await page.goto(world.system.controlUrl + path);
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
  const answer = await fetch(world.system.controlUrl);
  expect(answer.headers.get("content-security-policy")).not.toMatch(/unsafe|\*/);
  await page.context().close();
});

it("another site's page changes nothing, though the browser has a session, and the token is in no URL and no log", async () => {
  const { page } = await newPage(world.browser);
  const urls: string[] = [];
  page.on("request", (request) => urls.push(request.url()));
  await signIn(page, world.system.controlUrl, adminToken);
  // Another port is another origin, and the same site: the browser sends the session's cookie along.
  const attack = async (path: string) => {
    await page.goto(`${world.system.upstreamUrl}/any`);
    const [answer] = await Promise.all([
      page.waitForResponse(world.system.controlUrl + path),
      page.evaluate((url) => {
        const form = document.createElement("form");
        Object.assign(form, { method: "POST", enctype: "text/plain", action: url });
        document.body.append(form);
        form.submit();
      }, world.system.controlUrl + path),
    ]);
    expect((await answer.request().allHeaders())["cookie"]).toContain("sluice-session");
    expect(await answer.json()).toMatchObject({ status: 403, code: "cross-site-request" });
  };
  const before = await world.system.api("GET", "/audit?limit=1");
  await attack("/api/v1/apps/default/bans");
  await attack("/api/v1/tokens");
  await attack("/api/v1/members");
  await page.waitForTimeout(300);
  expect((await world.system.api("GET", "/audit?limit=1")).body).toBe(before.body);
  expect(urls.join("\n")).not.toContain(adminToken);
  expect(world.system.controlPlaneOutput).not.toContain(adminToken);
  expect(world.system.controlPlaneOutput).toContain("control plane on");
  await page.context().close();
});

it("says that the control plane does not answer, and goes on when it is back", async () => {
  const { page } = await newPage(world.browser);
  await signIn(page, world.system.controlUrl, adminToken);
  await page.getByText("Nothing needs your attention.").waitFor();
  await world.system.killControlPlane();
  await page.getByText("The control plane does not answer. Gateways keep").waitFor();
  await world.system.startControlPlane();
  await page.getByText("Nothing needs your attention.").waitFor();
  await page.context().close();
});
