// What a real browser does with our cookies. The provider's host is another site than that of the control plane.

import { expect, it } from "vitest";
import { startBrowser } from "../../fixtures/clients/console-page.ts";
import { startWorld } from "../../fixtures/servers/openid-world.ts";

it("Chromium comes back from the provider signed in, and a link on another site's page carries no session", async () => {
  const world = await startWorld();
  const browser = await startBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(`${world.url}/api/v1/session/oidc?returnTo=/api/v1/session`);
    await page.fill('input[name="login"]', "ann");
    await page.fill('input[name="password"]', "any");
    await page.click("button");
    await page.click("button");
    await page.waitForURL(`${world.url}/api/v1/session`);
    expect(await page.content()).toContain('"who":"ann@example.com"');
    const [cookie] = (await page.context().cookies()).filter(({ name }) => name.startsWith("sluice-"));
    expect(cookie).toMatchObject({ name: "sluice-session", sameSite: "Strict", httpOnly: true, path: "/" });

    await page.goto(`${world.provider.issuer}/.well-known/openid-configuration`);
    const [answer] = await Promise.all([
      page.waitForResponse(`${world.url}/api/v1/session`),
      page.evaluate(`location.href = ${JSON.stringify(`${world.url}/api/v1/session`)}`),
    ]);
    expect(answer.status()).toBe(401);
    await page.waitForURL(`${world.url}/api/v1/session`);
    expect((await page.goto(`${world.url}/api/v1/session`))?.status()).toBe(200);
  } finally {
    await browser.close();
  }
});
