// The console's pages of gateways, before the real system: what a gateway warns of is on them.

import { expect, it, onTestFinished } from "vitest";
import { newPage, signIn, startBrowser } from "../fixtures/clients/console-page.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";

it("shows that a gateway has warnings, and on its own page which", async () => {
  const system = await System.start();
  onTestFinished(() => system.stop());
  // Nobody asks for it.
  await system.put({ name: "books", limits: [{ algorithm: "fixed-window", quota: 3, window: "1d" }] });
  const browser = await startBrowser();
  onTestFinished(() => browser.close());
  const { page, faults } = await newPage(browser);
  await signIn(page, system.controlUrl, adminToken, "/gateways");
  await page.getByRole("row", { name: "gateway-1" }).getByText("1 warning").waitFor();
  await page.getByRole("link", { name: "gateway-1" }).click();
  const said = page.getByRole("region", { name: "What to look at" });
  expect(await said.getByRole("listitem").allTextContents()).toEqual([
    "no policy has counted a request since nginx started: if it should have, the locations do not call sluice.access()",
  ]);
  expect(faults).toEqual([]);
});
