// npm run screenshots: takes a picture of every page of the console before a real system with traffic, light, dark, narrow and in Chinese,
// into docs/images.

import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { requireConsoleBuild } from "../../../launch/console-build.ts";
import { fail, say } from "../../../launch/step.mjs";
import { requireSystemPackages } from "../../../launch/system-packages.ts";
import { newPage, startBrowser } from "../../fixtures/clients/console-page.ts";
import { adminToken, System } from "../../fixtures/servers/system.ts";
import { fillShop, trade } from "./shop.ts";

const directory = resolve(import.meta.dirname, "../../../docs/images");
/** Long enough for a chart to have something to show. */
const tradeMs = 100_000;
const settleMs = 1_500;

const app = "app=default";
const key = encodeURIComponent(JSON.stringify(["203.0.113.7"]));
const pages = {
  overview: `/overview?${app}`,
  keys: `/keys?${app}&policy=login-per-address&key=${key}`,
  try: `/try?${app}&path=/catalogue/books`,
  gateways: "/gateways",
  gateway: "/gateways/gateway-1",
  policies: `/policies?${app}`,
  policy: "/policies/default/checkout-per-customer",
  "new-policy": `/policies/new?${app}`,
  templates: `/templates?${app}`,
  bans: `/bans?${app}`,
  networks: `/networks?${app}`,
  consumers: `/consumers?${app}`,
  history: `/history?${app}`,
  revision: "/history/11",
  audit: "/audit",
  members: "/members",
  tokens: "/tokens",
} as const;

const wide = { width: 1280, height: 800 };
const narrow = { width: 390, height: 844 };
const looks = {
  light: { colorScheme: "light", viewport: wide },
  dark: { colorScheme: "dark", viewport: wide },
  narrow: { colorScheme: "light", viewport: narrow },
  chinese: { colorScheme: "light", viewport: wide, locale: "zh-CN" },
} as const;

await requireSystemPackages("screenshots", process.env["SLUICE_NGINX"]).catch(fail);
await requireConsoleBuild().catch(fail);
const only = process.argv.slice(2);
mkdirSync(directory, { recursive: true });
const stop = new AbortController();
const system = await System.start({ gateways: 2, redis: true });
try {
  await fillShop(system);
  const trading = trade(system, stop.signal);
  say(`trading for ${tradeMs / 1_000} s`);
  await sleep(Number(process.env["SLUICE_TRADE_MS"] ?? tradeMs));
  const browser = await startBrowser();
  for (const [look, options] of Object.entries(looks)) {
    const { page } = await newPage(browser, options);
    await page.goto(`${system.controlUrl}/sign-in`);
    await page.locator("form").waitFor();
    await page.screenshot({ path: join(directory, `sign-in-${look}.png`) });
    await page.locator("form input").fill(adminToken);
    await page.keyboard.press("Enter");
    await page.getByRole("navigation").waitFor();
    for (const [name, path] of Object.entries(pages)) {
      if (only.length > 0 && !only.includes(name)) continue;
      await page.goto(`${system.controlUrl}${path}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.waitForFunction(() => document.querySelector(".loading") === null);
      await sleep(settleMs);
      // The whole page in one view: what sticks to the foot of the view is at the foot of the page.
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      await page.setViewportSize({ width: options.viewport.width, height: Math.max(height, options.viewport.height) });
      await sleep(300);
      await page.screenshot({ path: join(directory, `${name}-${look}.png`) });
      await page.setViewportSize(options.viewport);
      say(`${name}, ${look}`);
    }
    await page.context().close();
  }
  await browser.close();
  stop.abort();
  await trading;
} finally {
  stop.abort();
  await system.stop();
}
