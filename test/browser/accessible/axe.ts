// What axe-core finds on a page of the console.

import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "playwright-core";

/** Colours are all that a theme changes. The pages have no frames, and without those axe is quicker by its older way. */
export async function accessibilityFaults(page: Page, part = "html"): Promise<string[]> {
  const axe = () => new AxeBuilder({ page }).include(part).setLegacyMode();
  await page.emulateMedia({ colorScheme: "light" });
  const light = await axe().analyze();
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await axe().withRules(["color-contrast"]).analyze();
  await page.emulateMedia({ colorScheme: "light" });
  return [light, dark].flatMap(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`));
}
