// A backup of the database is restored: the gateway has revisions that the database has lost, shows their proof, and then
// takes what was restored.

import { copyFileSync, cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import type { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { Plane, startGatewayOf } from "../fixtures/servers/plane.ts";
import { System } from "../fixtures/servers/system.ts";
import { until, untilPasses } from "../fixtures/until.ts";

let system: System;
beforeAll(async () => {
  system = await System.start({ gateways: 1 });
});
afterAll(() => system?.stop());

const policy = (quota: number) => ({
  name: "books",
  match: { paths: ["/books"] },
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});
const gatewayUrl = () => system.gateways[0]?.url ?? "";
const limitReported = async () => (await ask(`${gatewayUrl()}/books`)).headers["x-ratelimit-limit"];
const history = async () => JSON.parse((await system.api("GET", "/revisions")).body).revisions;

it("a restored database takes effect at the gateway by itself, once, and so do later changes", async () => {
  const file = join(system.directory, "sluice.db");
  await system.put(policy(11));
  await system.stopControlPlane();
  copyFileSync(file, `${file}.backup`);
  await system.startControlPlane();
  await system.put(policy(12));
  await system.put(policy(13));
  await until("the newest is in force", async () => (await limitReported()) === "13");
  await system.stopControlPlane();
  copyFileSync(`${file}.backup`, file);
  await system.startControlPlane();

  await until("what was restored is in force", async () => (await limitReported()) === "11");
  expect((await history()).map(({ action }: { action: string }) => action)).toEqual(["new-epoch", "create-policy"]);
  await system.put(policy(14));
  await until("what was put is in force", async () => (await limitReported()) === "14");
  expect(JSON.parse((await ask(`${system.controlUrl}/readyz`)).body).alarms).toEqual([]);
});

describe("a gateway that was away while as much was changed in the restored database as it had lost", () => {
  const limit = (quota: number) => [{ name: "daily", algorithm: "fixed-window", quota, window: "366d" }];
  const policyOf = (name: string) => ({ match: { paths: [`/${name}`] }, limits: limit(7) });
  const byPlan = {
    match: { paths: ["/by-plan"] },
    key: ["header:x-user"],
    plans: { free: limit(10), pro: limit(1_000) },
    planBy: "consumer",
    defaultPlan: "free",
  };
  let plane: Plane;
  /** Another control plane with the same database, which the gateway does not know. */
  let unseen: Plane;
  let gateway: LoneGateway;
  beforeAll(async () => {
    plane = await new Plane(await freePort(), {}).start();
    unseen = new Plane(await freePort(), { SLUICE_DATA_DIR: plane.directory });
    gateway = await startGatewayOf("one", [plane.url]);
    await untilConnected();
    await put(plane, "policies/by-plan?wait=30s", byPlan);
  });
  afterAll(async () => {
    await gateway?.stop();
    await unseen?.remove();
    await plane?.remove();
  });

  async function put(at: Plane, path: string, body: unknown) {
    const answer = await at.call("PUT", `/apps/default/${path}`, body);
    expect([200, 201]).toContain(answer.status);
    return answer.body;
  }
  const limitOf = async (path: string, user = "nobody") =>
    (await ask(`${gateway.url}/${path}`, { headers: { "x-user": user } })).headers["x-ratelimit-limit"];
  const untilConnected = () => until("the gateway is connected", async () => (await plane.gatewaysHere()) === 1);
  /** Restores what was there before a first change; a second one follows before the gateway is back. */
  const restoreBetween = async (first: () => Promise<unknown>, second: () => Promise<unknown>) => {
    const backup = `${plane.directory}-backup`;
    const replaceBy = (to: string, from: string) => {
      rmSync(to, { recursive: true, force: true });
      cpSync(from, to, { recursive: true });
    };
    await plane.kill();
    replaceBy(backup, plane.directory);
    await plane.start();
    await untilConnected();
    await first();
    await plane.kill();
    replaceBy(plane.directory, backup);
    rmSync(backup, { recursive: true });
    await unseen.start();
    await second();
    await unseen.kill();
    await plane.start();
    await untilConnected();
  };

  it.each(["as many", "more"])("loses the policies that were lost, and gets the new ones: %s", async (many) => {
    const name = many.replace(" ", "-");
    await put(plane, `policies/kept-${name}?wait=30s`, policyOf(`kept-${name}`));
    await restoreBetween(
      () => put(plane, `policies/lost-${name}?wait=30s`, policyOf(`lost-${name}`)),
      async () => {
        await put(unseen, `policies/new-${name}`, policyOf(`new-${name}`));
        if (many === "more") await put(unseen, "policies/one-more", policyOf("one-more"));
      },
    );
    const { applied } = await put(plane, `policies/later-${name}?wait=30s`, policyOf(`later-${name}`));
    expect(applied).toMatchObject({ gateways: 1, acked: 1 });
    const names = [`kept-${name}`, `lost-${name}`, `new-${name}`, `later-${name}`];
    await untilPasses(async () =>
      expect(await Promise.all(names.map((one) => limitOf(one)))).toEqual(["7", undefined, "7", "7"]),
    );
  });

  it("loses a ban that was lost, and gets the new one", async () => {
    const ban = (at: Plane, user: string) =>
      at.call("POST", "/apps/default/bans?wait=10s", { policy: "by-plan", key: [user], for: "1h" });
    await restoreBetween(
      () => ban(plane, "ann"),
      () => ban(unseen, "bob"),
    );
    const isBanned = async (user: string) =>
      (await ask(`${gateway.url}/by-plan`, { headers: { "x-user": user } })).status === 403;
    await untilPasses(async () => expect([await isBanned("ann"), await isBanned("bob")]).toEqual([false, true]));
  });

  it("loses the plans of consumers that were lost, and gets the new ones", async () => {
    const putPro = async (at: Plane, users: readonly string[], query = "") => {
      for (const user of users) await put(at, `consumers/${user}${query}`, { plan: "pro" });
    };
    await putPro(plane, ["a"], "?wait=30s");
    await restoreBetween(
      () => putPro(plane, ["b", "c"], "?wait=30s"),
      () => putPro(unseen, ["d", "e", "f"]),
    );
    await putPro(plane, ["g"], "?wait=30s");
    await untilPasses(async () =>
      expect(await Promise.all([..."abcdefg"].map((user) => limitOf("by-plan", user)))).toEqual([
        "1000",
        "10",
        "10",
        "1000",
        "1000",
        "1000",
        "1000",
      ]),
    );
  });
});
