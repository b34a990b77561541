// Every page in one language. Each language is a file of its own, so that they are looked at side by side.

import { expect, it } from "vitest";
import { newPage, signIn } from "../../fixtures/clients/console-page.ts";
import { adminToken } from "../../fixtures/servers/system.ts";
import { fullSystemAndBrowser } from "../full-system.ts";
import { accessibilityFaults } from "./axe.ts";

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

/**
 * @param language as the console's menu calls it
 * @param tag of the document
 * @param heading of the last page
 */
export function everyPageIsAccessible(language: string, tag: string, heading: string): void {
  const world = fullSystemAndBrowser();

  it("every page is accessible in both themes, and fits 390 px", async () => {
    const { page, faults } = await newPage(world.browser, { viewport: { width: 390, height: 844 } });
    const check = async (where: string) => {
      expect(await accessibilityFaults(page), where).toEqual([]);
      const [width, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth] as const);
      expect(width, where).toBeLessThanOrEqual(room);
    };
    await page.goto(`${world.system.controlUrl}/sign-in`);
    await page.getByLabel("Token").waitFor();
    await check("/sign-in");
    await signIn(page, world.system.controlUrl, adminToken);
    await page.getByLabel(/Language|语言/).selectOption(language);
    for (const path of pages) {
      await page.goto(`${world.system.controlUrl}${path}`);
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
}
