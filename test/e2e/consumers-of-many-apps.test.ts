// Apps that share a gateway whose memory is too small for all their consumers: what an app has beyond its share costs no other app a plan.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import type { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { Plane, startGatewayOf } from "../fixtures/servers/plane.ts";
import { until, untilPasses } from "../fixtures/until.ts";

const daily = (quota: number) => [{ name: "daily", algorithm: "fixed-window", quota, window: "366d" }];
const books = {
  match: { paths: ["/books"] },
  key: ["header:x-user"],
  plans: { free: daily(10), pro: daily(1_000) },
  planBy: "consumer",
  defaultPlan: "free",
};
const idsOf = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}-${i}`);

let plane: Plane;
let small: LoneGateway;
let large: LoneGateway;

async function load(app: string, ids: readonly string[], plan = "pro", query = "") {
  const answer = await fetch(`${plane.url}/api/v1/apps/${app}/consumers?wait=60s${query}`, {
    method: "PUT",
    body: ids.map((id) => JSON.stringify({ id, plan })).join("\n"),
    headers: { "content-type": "application/jsonl", authorization: "Bearer test-admin-token-0123456789" },
  });
  return answer.json() as Promise<Record<string, unknown>>;
}

async function limitsOf(gateway: LoneGateway, ids: readonly string[]): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (const id of ids) {
    const { headers } = await ask(`${gateway.url}/books`, { headers: { "x-user": id } });
    const limit = Number(headers["x-ratelimit-limit"]);
    counts[limit] = (counts[limit] ?? 0) + 1;
  }
  return counts;
}

async function held(id: string): Promise<{ count: number; unstored: number }> {
  const { gateways } = (await plane.call("GET", "/gateways")).body;
  return gateways.find((gateway: { id: string }) => gateway.id === id).consumers;
}

beforeAll(async () => {
  plane = await new Plane(await freePort(), {}).start();
  small = await startGatewayOf("small", [plane.url], {}, (config) =>
    config.replace(/sluice_consumers \d+m/, "sluice_consumers 1m"),
  );
  large = await startGatewayOf("large", [plane.url]);
  await until("both gateways are connected", async () => (await plane.gatewaysHere()) === 2);
  for (const app of ["flood", "late"]) await plane.call("PUT", `/apps/${app}`, { realm: null });
  await plane.call("PUT", "/apps/default/policies/books?wait=30s", books);
});
afterAll(async () => {
  await small?.stop();
  await large?.stop();
  await plane?.remove();
});

describe("an app that stores more consumers than a gateway has memory for", () => {
  const own = idsOf("own", 300);
  const overrides = { books: daily(77), other: daily(1) };

  it("loses those that were stored last, and the answer to it says that a gateway lacks some", async () => {
    expect(await load("default", own)).toMatchObject({ applied: { gateways: 2, acked: 2 } });
    expect(await load("flood", idsOf("flood", 20_000))).toMatchObject({
      done: 20_000,
      applied: { gateways: 2, acked: 1 },
    });
    expect((await held("small")).unstored).toBe(20_300 - (await held("small")).count);
    expect(await held("large")).toMatchObject({ count: 20_300, unstored: 0 });
    expect(small.log).toMatch(/sluice_consumers is full: \d+ consumers .* apps: flood \(\d+\)/);
  });

  it("takes no plan from a consumer of another app, and none that it gets afterwards, also if that takes more memory", async () => {
    expect(await limitsOf(small, own)).toEqual({ 1000: 300 });
    for (const id of own.slice(0, 20)) {
      const put = await plane.call("PUT", `/apps/default/consumers/${id}?wait=60s`, { plan: "pro", overrides });
      expect(put.body.applied).toEqual({ gateways: 2, acked: 2 });
    }
    expect(await limitsOf(small, own)).toEqual({ 77: 20, 1000: 280 });
    expect(await load("default", idsOf("new", 300))).toMatchObject({ applied: { gateways: 2, acked: 2 } });
    expect(await limitsOf(small, idsOf("new", 300))).toEqual({ 1000: 300 });
  });

  it("is counted once for each consumer that has no room, however often that changes", async () => {
    const before = await held("small");
    for (const plan of ["free", "pro", "free"]) {
      expect(await load("flood", ["flood-19999"], plan)).toMatchObject({ applied: { gateways: 2, acked: 1 } });
    }
    expect(await held("small")).toMatchObject({ count: before.count, unstored: before.unstored });
    expect(await small.metric("sluice_consumers_unstored")).toBe(before.unstored);
    await plane.call("DELETE", "/apps/flood/consumers/flood-19998?wait=60s");
    expect((await held("small")).unstored).toBe(before.unstored - 1);
  });

  it("takes no plan from other apps at a start without the control plane, and is counted once when that is back", async () => {
    const before = await held("small");
    await plane.kill();
    await small.restart();
    expect(await limitsOf(small, own)).toEqual({ 77: 20, 1000: 280 });
    expect(await limitsOf(small, idsOf("new", 300))).toEqual({ 1000: 300 });
    await plane.start();
    await until("both gateways are connected", async () => (await plane.gatewaysHere()) === 2);
    await untilPasses(async () => expect(await held("small")).toMatchObject(before));
  });

  it("gives way to an app that has less, until both have the same, and takes the room that is left", async () => {
    // Half of the memory holds some 3,500 of them.
    const late = idsOf("late", 2_500);
    await load("default", late);
    await untilPasses(async () => {
      const put = await plane.call("PUT", "/apps/default/consumers/last", { plan: "pro" });
      expect(put.status).toBeLessThan(300);
      expect(await load("default", ["last"], "free")).toMatchObject({ applied: { gateways: 2, acked: 2 } });
    });
    expect(await limitsOf(small, late)).toEqual({ 1000: 2_500 });
    expect(await limitsOf(small, own)).toEqual({ 77: 20, 1000: 280 });
    const { count, unstored } = await held("small");
    expect(count + unstored).toBe((await held("large")).count);
    // What it has, with 3,101 of the other app, fills what apps may have: seven eighths.
    expect(count).toBeGreaterThan(6_800);
    // When the other app has less again, there is room for more of it.
    await load("default", own, "pro", "&replace=true");
    expect((await held("small")).count).toBeLessThan(6_800);
    await untilPasses(async () => expect((await held("small")).count).toBeGreaterThan(6_800));
    expect(await limitsOf(small, own)).toEqual({ 1000: 300 });
  });

  it("leaves room for an app that has none yet", async () => {
    expect(await load("late", idsOf("late", 400))).toMatchObject({ applied: { gateways: 2, acked: 2 } });
  });
});
