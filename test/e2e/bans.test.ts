// Bans at a real gateway: of a network and of key values, by app, until they end.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { ask } from "../fixtures/requests.ts";

const limits = [{ algorithm: "fixed-window", quota: 1000, window: "366d" }];
const at = (name: string) => ({ name, match: { paths: [`/${name}`] }, key: ["header:x-user"], limits });
const soon = Math.floor(Date.now() / 1000) + 3;
const later = soon + 3600;

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [at("keyed"), at("open"), { ...at("by-address"), key: ["ip"], limits: [{ ...limits[0], quota: 1 }] }],
    otherPolicies: { shop: [at("network"), { ...at("watched"), mode: "shadow" }], bank: [at("brief")] },
    bans: [
      { id: "1", app: "default", policy: "keyed", key: ["bad-*"], untilSeconds: later },
      { id: "2", app: "shop", cidr: "127.0.0.0/8", untilSeconds: later },
      { id: "3", app: "bank", cidr: "127.0.0.1", untilSeconds: soon },
      { id: "4", app: "default", policy: "open", key: ["bad-*"], untilSeconds: 1 },
      // Made when the policy had another key, or by somebody who knows no addresses.
      { id: "5", app: "default", policy: "by-address", key: ["bad"], untilSeconds: later },
    ],
  });
});
afterAll(() => gateway?.stop());

const status = async (path: string, user: string) =>
  (await ask(`${gateway.url}${path}`, { headers: { "x-user": user } })).status;

// The upstream here answers 404 to what it does not know.
describe("a banned", () => {
  it("key is refused by its policy alone", async () => {
    expect(await status("/keyed", "bad-one")).toBe(403);
    expect(await status("/keyed", "good-one")).toBe(404);
    expect(await status("/open", "bad-one")).toBe(404);
  });

  it("key that its policy can never have bans nobody, and the policy limits on", async () => {
    expect(await status("/by-address", "a")).toBe(404);
    expect(await status("/by-address", "a")).toBe(429);
  });

  it("network is refused by the policies of its app, but for those that only watch", async () => {
    const { status: refused, body } = await ask(`${gateway.url}/network`, { headers: { "x-user": "a" } });
    expect(refused).toBe(403);
    expect(JSON.parse(body)).toMatchObject({ status: 403, title: "Banned" });
    expect(await status("/watched", "a")).toBe(404);
  });

  it("network may come back when its time is over, without a new snapshot", async () => {
    if (Date.now() / 1000 < soon) expect(await status("/brief", "a")).toBe(403);
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, soon * 1000 - Date.now()) + 50));
    expect(await status("/brief", "a")).toBe(404);
  });
});
