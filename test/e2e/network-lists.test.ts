// Named lists of networks at a real gateway: exemptions and bans refer to them, and a list is replaced as a whole under load.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { putNetworks } from "../fixtures/clients/network-lists.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { System } from "../fixtures/servers/system.ts";

const onceADay = [{ algorithm: "fixed-window", quota: 1, window: "1d" }];
let system: System;

beforeAll(async () => {
  system = await System.start({ workers: 2 });
  await system.api("PUT", "/apps/crm", { realm: { hosts: ["crm.test"] } });
});
afterAll(() => system?.stop());

const putList = (app: string, name: string, networks: readonly string[]) => putNetworks(system, app, name, networks);
const put = (app: string, name: string, policy: object) =>
  system.api("PUT", `/apps/${app}/policies/${name}?wait=30s`, policy);
const visit = (path: string, from: string, host = "any.test") =>
  ask(`${system.gateway.url}${path}`, { headers: { host }, from });

/** How many of three visits are admitted. */
async function admitted(path: string, from: string, host?: string): Promise<number> {
  let count = 0;
  for (let n = 0; n < 3; n++) if ((await visit(path, from, host)).status === 200) count += 1;
  return count;
}

describe("a list", () => {
  it("exempts whoever is on it from policies that refer to it, from the moment that it is there", async () => {
    await put("default", "by-address", {
      match: { paths: ["/by-address"] },
      key: ["ip"],
      limits: onceADay,
      exempt: { cidrs: ["@office", "127.0.0.9"] },
    });
    expect(await admitted("/by-address", "127.0.0.20")).toBe(1);
    await putList("default", "office", ["127.0.0.20/30", "2001:db8::/32"]);
    for (const from of ["127.0.0.20", "127.0.0.23", "127.0.0.9"]) expect(await admitted("/by-address", from)).toBe(3);
    expect(await admitted("/by-address", "127.0.0.24")).toBe(1);
    await putList("default", "office", ["127.0.0.24"]);
    expect(await admitted("/by-address", "127.0.0.24")).toBe(3);
    expect(await admitted("/by-address", "127.0.0.20")).toBe(0);
  });

  it("of the app itself comes before the one of app default", async () => {
    await put("crm", "own", {
      match: { hosts: ["crm.test"] },
      key: ["ip"],
      limits: onceADay,
      exempt: { cidrs: ["@house"] },
    });
    await putList("default", "house", ["127.0.0.40"]);
    expect(await admitted("/own", "127.0.0.40", "crm.test")).toBe(3);
    await putList("crm", "house", ["127.0.0.41"]);
    expect(await admitted("/own", "127.0.0.41", "crm.test")).toBe(3);
    expect(await admitted("/own", "127.0.0.40", "crm.test")).toBe(1);
  });

  it("is what an app exempts, and what a ban is of: in the realm of an app, and everywhere", async () => {
    await putList("crm", "partners", ["127.0.0.50/31"]);
    await put("crm", "all", { match: { hosts: ["crm.test"], paths: ["/all"] }, key: ["ip"], limits: onceADay });
    await system.api("PUT", "/apps/crm?wait=30s", { exempt: { cidrs: ["@partners"] } });
    expect(await admitted("/all", "127.0.0.51", "crm.test")).toBe(3);
    await putList("crm", "crawlers", ["127.0.0.60"]);
    await system.api("POST", "/apps/crm/bans?wait=30s", { cidr: "@crawlers", for: "1h" });
    expect((await visit("/anything", "127.0.0.60", "crm.test")).status).toBe(403);
    expect((await visit("/anything", "127.0.0.60")).status).not.toBe(403);
    await putList("crm", "crawlers", ["127.0.0.61", "127.0.0.70/31"]);
    expect((await visit("/anything", "127.0.0.60", "crm.test")).status).not.toBe(403);
    expect((await visit("/anything", "127.0.0.71", "crm.test")).status).toBe(403);
    await putList("default", "banned", ["127.0.0.80"]);
    await system.api("POST", "/apps/default/bans?wait=30s", { cidr: "@banned", for: "1h" });
    expect((await visit("/anything", "127.0.0.80")).status).toBe(403);
    expect((await visit("/anything", "127.0.0.81")).status).not.toBe(403);
  });

  it("of a hundred thousand networks is replaced at once: who is on both is always exempt, and who is on neither never", async () => {
    await put("default", "many", {
      match: { paths: ["/many"] },
      key: ["ip"],
      limits: onceADay,
      exempt: { cidrs: ["@many"] },
    });
    const around = (bits: number, count: number) =>
      Array.from({ length: count }, (_, i) => `${10 + (i >> 16)}.${(i >> 8) % 256}.${i % 256}.${bits}/28`);
    const lists = [
      ["127.0.0.90", ...around(16, 99_999)],
      // Other blocks, so that the one with the address is another one.
      ["127.0.0.88/29", ...around(32, 40_000)],
    ];
    await putList("default", "many", lists[0] as string[]);
    expect(await admitted("/many", "127.0.0.97")).toBe(1);
    let replaced = 0;
    let isOver = false;
    const replacing = (async () => {
      for (; replaced < 6; replaced++) await putList("default", "many", lists[(replaced + 1) % 2] as string[]);
    })().finally(() => {
      isOver = true;
    });
    const seen: Record<string, number> = {};
    const look = async (from: string) => {
      while (!isOver) {
        const { status } = await visit("/many", from);
        seen[`${from} ${status}`] = (seen[`${from} ${status}`] ?? 0) + 1;
      }
    };
    await Promise.all([replacing, look("127.0.0.90"), look("127.0.0.90"), look("127.0.0.97")]);
    expect(replaced).toBe(6);
    expect(Object.keys(seen).sort()).toEqual(["127.0.0.90 200", "127.0.0.97 429"]);
    expect(seen["127.0.0.90 200"]).toBeGreaterThan(200);
  });

  it("is there again when the gateway starts without the control plane", async () => {
    await putList("default", "kept", ["127.0.0.110"]);
    await put("default", "kept", {
      match: { paths: ["/kept"] },
      key: ["ip"],
      limits: onceADay,
      exempt: { cidrs: ["@kept"] },
    });
    await system.killControlPlane();
    const { gateway } = system;
    await gateway.program.stop();
    await system.startGatewayAlone(gateway);
    expect(await admitted("/kept", "127.0.0.110")).toBe(3);
    expect(await admitted("/kept", "127.0.0.111")).toBe(1);
  });
});
