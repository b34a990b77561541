// A system of which every page of the console has something to show: pages with something on them have more to get wrong.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { startBrowser } from "../fixtures/clients/console-page.ts";
import { putNetworks } from "../fixtures/clients/network-lists.ts";
import { System } from "../fixtures/servers/system.ts";

export interface World {
  system: System;
  browser: Browser;
}

/** The system and a browser, while the tests around run. */
export function fullSystemAndBrowser(): World {
  const world = {} as World;
  beforeAll(async () => {
    world.system = await fullSystem();
    world.browser = await startBrowser();
  });
  afterAll(async () => {
    await world.browser?.close();
    await world.system?.stop();
  });
  return world;
}

async function fullSystem(): Promise<System> {
  const system = await System.start();
  await system.put({
    name: "books",
    description: "<img src=x onerror=alert(1)>",
    match: { paths: ["/books"] },
    limits: [{ algorithm: "fixed-window", quota: 3, window: "366d" }],
  });
  const store = async (method: string, path: string, body: object) =>
    expect((await system.api(method, path, body)).status).toBeLessThan(300);
  await store("PUT", "/apps/default/templates/polite", { onLimit: { action: "reject", status: 429 } });
  await store("POST", "/apps/default/bans", { cidr: "192.0.2.0/24", for: "1h", reason: "<b>why</b>" });
  await store("PUT", "/apps/default/consumers/<u>ann<%2Fu>", { plan: "pro" });
  await store("POST", "/members", { name: "ann", roles: { default: "owner" } });
  await store("POST", "/tokens", { name: "<i>robot</i>", app: "default", role: "viewer" });
  await putNetworks(system, "default", "office", ["192.0.2.0/24"]);
  return system;
}
