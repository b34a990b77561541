// The dialogs of the console, before axe-core and for people who use no mouse.

import { expect, it } from "vitest";
import { newPage, signIn } from "../../fixtures/clients/console-page.ts";
import { adminToken } from "../../fixtures/servers/system.ts";
import { fullSystemAndBrowser } from "../full-system.ts";
import { accessibilityFaults } from "./axe.ts";

const world = fullSystemAndBrowser();

it("every dialog is accessible, has the focus, and hands it back", async () => {
  const { page, faults } = await newPage(world.browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, world.system.controlUrl, adminToken);
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
    await page.goto(world.system.controlUrl + path);
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
