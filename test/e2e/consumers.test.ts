// Consumers in two real gateways: a change is in force everywhere within a second, and a gateway that starts alone knows them all.

import { createHash } from "node:crypto";
import {
  appendFileSync,
  chownSync,
  existsSync,
  lchownSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { makeMemoryDir, removeMemoryDir } from "../fixtures/servers/memory-dir.ts";
import { Plane, startGatewayOf } from "../fixtures/servers/plane.ts";
import { until } from "../fixtures/until.ts";

const burst = (quota: number) => [{ name: "daily", algorithm: "fixed-window", quota, window: "366d" }];
const books = {
  match: { paths: ["/books"] },
  key: ["header:x-user"],
  plans: { free: burst(10), pro: burst(1_000) },
  planBy: "consumer",
  defaultPlan: "free",
};

let plane: Plane;
const gateways: LoneGateway[] = [];
const put = (id: string, body: object, query = "?wait=30s") =>
  plane.call("PUT", `/apps/default/consumers/${encodeURIComponent(id)}${query}`, body);

async function limitOf(gateway: LoneGateway, user: string): Promise<number> {
  const { headers } = await ask(`${gateway.url}/books`, { headers: { "x-user": user } });
  return Number(headers["x-ratelimit-limit"] ?? Number.NaN);
}

const limits = (user: string) => Promise.all(gateways.map((gateway) => limitOf(gateway, user)));

/** 3,000 consumers, each with overrides of 3 KB, as JSON lines. */
function longOnes(quota: number): string {
  const own = Array.from({ length: 16 }, (_, i) => ({ ...burst(1)[0], name: `${"n".repeat(50)}-${i}` }));
  const overrides = { books: [...burst(quota), ...own.slice(1)], other: own.slice(0, 8) };
  return Array.from({ length: 3_000 }, (_, i) => JSON.stringify({ id: `long-${i}`, plan: "pro", overrides })).join(
    "\n",
  );
}

/** Returns whether a process that this one has started has the file open. */
function childHasOpen(path: string): boolean {
  const childrenOf = (thread: string) => readFileSync(`/proc/self/task/${thread}/children`, "utf8").trim().split(" ");
  const children = readdirSync("/proc/self/task").flatMap(childrenOf);
  return children.some((pid) => {
    try {
      return readdirSync(`/proc/${pid}/fd`).some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`) === path);
    } catch {
      // It, or the descriptor, is gone again.
      return false;
    }
  });
}

/** Returns the header of the last block of a log. */
function lastHeaderOf(log: Buffer): { epoch: string; to: number } {
  for (let at = 0; ; ) {
    const header = JSON.parse(log.subarray(at, at + 384).toString());
    at += 384 + header.bytes;
    if (at >= log.length) return header;
  }
}

/** @param acked how many of the gateways have room for all */
async function importLong(quota: number, gatewayCount: number, acked = gatewayCount): Promise<void> {
  const answer = await fetch(`${plane.url}/api/v1/apps/default/consumers?wait=30s`, {
    method: "PUT",
    body: longOnes(quota),
    headers: { "content-type": "application/jsonl", authorization: "Bearer test-admin-token-0123456789" },
  });
  const applied = { gateways: gatewayCount, acked };
  expect(await answer.json()).toMatchObject({ done: 3_000, applied });
}

beforeAll(async () => {
  plane = await new Plane(await freePort(), {}).start();
  for (const name of ["one", "two"]) gateways.push(await startGatewayOf(name, [plane.url]));
  await until("both gateways are connected", async () => (await plane.gatewaysHere()) === 2);
  const { status, body } = await plane.call("PUT", "/apps/default/policies/books?wait=30s", books);
  expect([status, body.applied]).toMatchObject([201, { gateways: 2, acked: 2 }]);
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.stop();
  await plane?.remove();
});

describe("a consumer", () => {
  it("has the default plan until it has one, which is in force everywhere when the change is answered, and keeps what it used", async () => {
    expect(await limits("ann")).toEqual([10, 10]);
    expect((await put("ann", { plan: "pro" })).body.applied).toEqual({ gateways: 2, acked: 2 });
    expect(await limits("ann")).toEqual([1_000, 1_000]);
    // It had one request before, and two with the others of this test.
    const { headers } = await ask(`${gateways[0]?.url}/books`, { headers: { "x-user": "ann" } });
    expect(headers["x-ratelimit-remaining"]).toBe("997");
    expect(await limits("bob")).toEqual([10, 10]);
    await plane.call("DELETE", "/apps/default/consumers/ann?wait=30s");
    expect(await limits("ann")).toEqual([10, 10]);
  });

  it("may have limits of its own, in its plan or in one that the policy does not have", async () => {
    await put("own", { plan: "pro", overrides: { books: burst(77), other: burst(1) } });
    await put("odd", { plan: "nobody-has-this", overrides: { books: burst(55) } });
    await put("else", { plan: "pro", overrides: { other: burst(1) } });
    expect(await limits("own")).toEqual([77, 77]);
    expect(await limits("odd")).toEqual([55, 55]);
    expect(await limits("else")).toEqual([1_000, 1_000]);
    await put("own", { plan: "pro" });
    expect(await limits("own")).toEqual([1_000, 1_000]);
  });

  it("may have a limit by a time zone that the policy goes by itself, from when it does, whatever other policies go by", async () => {
    const daily = (quota: number, timezone: string) => [
      { name: "b", algorithm: "fixed-window", quota, window: "day", timezone },
    ];
    const inZone = (name: string, timezone: string) =>
      plane.call("PUT", `/apps/default/policies/${name}?wait=30s`, {
        ...books,
        match: { paths: [`/${name}`] },
        plans: { free: daily(10, "Europe/Berlin"), pro: daily(20, timezone) },
      });
    const limit = async (gateway: LoneGateway) =>
      Number((await ask(`${gateway.url}/abroad`, { headers: { "x-user": "tok" } })).headers["x-ratelimit-limit"]);
    const everywhere = async () => {
      const seen: number[] = [];
      for (const gateway of gateways) for (let i = 0; i < 8; i++) seen.push(await limit(gateway));
      const { body } = await plane.call("GET", "/apps/default/counters?policy=abroad&key=tok");
      return new Set([...seen, body.gateways[0].limits[0].limit]);
    };
    await inZone("abroad", "Europe/Berlin");
    await put("tok", { plan: "pro", overrides: { abroad: daily(15, "asia/tokyo") } });
    expect(await everywhere()).toEqual(new Set([20]));
    await inZone("elsewhere", "Asia/Tokyo");
    expect(await everywhere()).toEqual(new Set([20]));
    await inZone("abroad", "Asia/Tokyo");
    expect(await everywhere()).toEqual(new Set([15]));
  });

  it("is known by all bytes of its id", async () => {
    for (const id of ["a b", "日本:語", 'quote"d', "x".repeat(256)]) {
      await put(id, { plan: "pro" });
      const sent = Buffer.from(id).toString("latin1");
      expect(await limits(sent), id).toEqual([1_000, 1_000]);
      expect(await limits(`${sent}x`)).toEqual([10, 10]);
    }
  });

  it("of another app is another one", async () => {
    await plane.call("PUT", "/apps/shop", { realm: {} });
    await plane.call("PUT", "/apps/shop/consumers/carl?wait=30s", { plan: "pro" });
    expect(await limits("carl")).toEqual([10, 10]);
  });

  it("is asked for by the check API, and its counter shows the limits of its plan", async () => {
    await put("asked", { plan: "pro" });
    await limits("asked");
    const { body } = await plane.call("GET", "/apps/default/counters?policy=books&key=asked");
    expect(
      body.gateways.map(({ limits: all }: { limits: { limit: number; remaining: number }[] }) => all),
    ).toMatchObject([[{ limit: 1_000, remaining: 999 }], [{ limit: 1_000, remaining: 999 }]]);
  });
});

describe("a gateway", () => {
  it("that starts while the control plane is down knows its consumers, and learns the rest when that is back", async () => {
    await put("kept", { plan: "pro" });
    await put("left", { plan: "pro" });
    await plane.call("DELETE", "/apps/default/consumers/left?wait=30s");
    const [gateway] = gateways as [LoneGateway];
    expect(existsSync(join(gateway.snapshotDir, "consumers.log"))).toBe(true);
    await plane.kill();
    await gateway.restart();
    expect(await limitOf(gateway, "kept")).toBe(1_000);
    expect(await limitOf(gateway, "left")).toBe(10);
    expect(await gateway.metric("sluice_consumers_unstored")).toBe(0);
    await plane.start();
    await until("both gateways are connected", async () => (await plane.gatewaysHere()) === 2);
    await put("late", { plan: "pro" });
    expect(await limits("late")).toEqual([1_000, 1_000]);
    expect(await gateway.metric("sluice_consumers")).toBe(
      (await plane.call("GET", "metrics")).body.match(/^sluice_control_consumers (\d+)$/m)?.[1] * 1,
    );
  });

  it("writes its log anew when it has grown long, and misses nothing", async () => {
    const [gateway] = gateways as [LoneGateway];
    const log = join(gateway.snapshotDir, "consumers.log");
    for (const quota of [501, 502, 503, 504]) await importLong(quota, 2);
    const once = Buffer.byteLength(longOnes(504));
    expect(once).toBeGreaterThan(8_388_608);
    // By then, all that came is four times as long.
    await until("the log is short again", () => statSync(log).size < 2.6 * once);
    await put("after", { plan: "pro" });
    await plane.kill();
    await gateway.restart();
    expect(await Promise.all(["long-0", "long-2999", "kept", "after"].map((user) => limitOf(gateway, user)))).toEqual([
      504, 504, 1_000, 1_000,
    ]);
    await plane.start();
    await until("both gateways are connected", async () => (await plane.gatewaysHere()) === 2);
    await plane.call("DELETE", "/apps/default/consumers/after?wait=30s");
    expect(await limits("after")).toEqual([10, 10]);
  });

  it.each([
    ["has lost its end", true],
    ["says of more consumers than there are", false],
  ])("whose log %s forgets whoever was deleted", async (_, hasLostItsEnd) => {
    const [gateway] = gateways as [LoneGateway];
    const log = join(gateway.snapshotDir, "consumers.log");
    await gateway.restart(() => {
      const { epoch, to } = lastHeaderOf(readFileSync(log));
      const lines = "+default:ghost\tpro\n";
      const at = hasLostItsEnd ? 0 : to;
      const sha256 = createHash("sha256").update(`${epoch} ${at} ${at}\n${lines}`).digest("hex");
      const header = JSON.stringify({ epoch, from: at, to: at, bytes: lines.length, sha256 });
      if (hasLostItsEnd) truncateSync(log);
      appendFileSync(log, `${header.padEnd(383)}\n${lines}`);
    });
    expect(gateway.log).toContain("sluice: starts with ");
    await until("it has asked for all", async () => (await limitOf(gateway, "ghost")) === 10);
    expect(await limitOf(gateway, "kept")).toBe(1_000);
    expect(gateway.log.includes("has more consumers than there are")).toBe(!hasLostItsEnd);
  });

  it.skipIf(process.getuid?.() !== 0)(
    "that root starts changes no file that the workers' account puts in the log's place while it is read",
    async () => {
      const [gateway] = gateways as [LoneGateway];
      const log = join(gateway.snapshotDir, "consumers.log");
      const ofRoot = makeMemoryDir("of-root");
      const secret = join(ofRoot, "secret");
      writeFileSync(secret, "s".repeat(6_756), { mode: 0o600 });
      const { uid, gid } = statSync(gateway.snapshotDir);
      let isStarted = false;
      const restarted = gateway
        .restart(() => {
          // To read the end takes a while, and what comes before it is used.
          const header = JSON.stringify({ epoch: "e", from: 1, to: 2, bytes: 60_000_000, sha256: "0" });
          appendFileSync(log, header.padEnd(384));
          appendFileSync(log, Buffer.alloc(60_000_000));
        })
        .finally(() => {
          isStarted = true;
        });
      let isSwapped = false;
      while (!isStarted && !isSwapped) {
        if (!childHasOpen(log)) {
          await setImmediate();
          continue;
        }
        renameSync(log, `${log}.moved`);
        symlinkSync(secret, log);
        lchownSync(log, uid, gid);
        isSwapped = true;
      }
      await restarted;
      expect(isSwapped).toBe(true);
      expect(gateway.log).toContain(`${log} is damaged after `);
      expect(readFileSync(secret, "utf8")).toBe("s".repeat(6_756));
      expect(statSync(secret)).toMatchObject({ uid: 0, mode: 0o100600 });
      // Nor do the workers, who could not anyway: they get everything again.
      rmSync(log);
      await until("both gateways are connected", async () => (await plane.gatewaysHere()) === 2);
      await put("swapped", { plan: "pro" });
      expect(await limits("swapped")).toEqual([1_000, 1_000]);
      expect(readFileSync(secret, "utf8")).toBe("s".repeat(6_756));
      removeMemoryDir(ofRoot);
    },
  );

  describe("starts beside a log of consumers with", () => {
    const head = (header: object, lines = "") => `${JSON.stringify(header).padEnd(383)}\n${lines}`;
    const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
    const empty = { epoch: "e", from: 0, to: 1, bytes: 0, sha256: sha256("e 0 1\n") };
    const ofTheDict = "+/state\tpro\n+/count\t5\n-/state\n+no-app\tpro\n+default:kept\tpro\n";
    const whole = { ...empty, bytes: ofTheDict.length, sha256: sha256(`e 0 1\n${ofTheDict}`) };

    it.each([
      ["a text as its position", head({ ...empty, from: "0" })],
      ["no position", head({ ...empty, from: null })],
      ["a text for what it lacks", head({ ...empty, lacks: "x" })],
      ["an infinite position", head({ ...empty, to: 7, sha256: sha256("e 0 inf\n") }).replace('"to":7', '"to":1e999')],
      [
        "an epoch of 200 characters",
        head({ ...empty, epoch: "e".repeat(200), sha256: sha256(`${"e".repeat(200)} 0 1\n`) }),
      ],
      ["names that the dict has for itself", head(whole, ofTheDict)],
    ])("%s", async (_, log) => {
      const gateway = await LoneGateway.start({ policies: [{ name: "books", ...books }] });
      try {
        await gateway.restart(() => {
          const file = join(gateway.snapshotDir, "consumers.log");
          writeFileSync(file, log, { mode: 0o600 });
          const { uid, gid } = statSync(gateway.snapshotDir);
          chownSync(file, uid, gid);
        });
        expect(await limitOf(gateway, "kept")).toBe(log.includes("default:kept") ? 1_000 : 10);
        expect(await limitOf(gateway, "nobody")).toBe(10);
      } finally {
        await gateway.stop();
      }
    });
  });

  it("without memory for consumers gives all the default plan, and says what is missing", async () => {
    const gateway = await LoneGateway.start({
      policies: [{ name: "books", ...books }],
      edit: (config) => config.replace(/\n *lua_shared_dict sluice_consumers[^\n]*/, ""),
    });
    try {
      expect(await limitOf(gateway, "kept")).toBe(10);
      expect(gateway.log).toContain("lua_shared_dict sluice_consumers 160m;");
      expect(await gateway.metric("sluice_consumers")).toBeNaN();
    } finally {
      await gateway.stop();
    }
  });

  it("whose memory is full evicts nobody, and says how many found no room", async () => {
    const gateway = await LoneGateway.start({
      env: {
        SLUICE_GATEWAY_ID: "small",
        SLUICE_GATEWAY_TOKEN: "test-gateway-token-0123456789",
        SLUICE_CONTROL_URL: plane.url,
      },
      edit: (config) => config.replace(/sluice_consumers \d+m/, "sluice_consumers 256k"),
    });
    try {
      await until("three gateways are connected", async () => (await plane.gatewaysHere()) === 3);
      const lines = Array.from({ length: 5_000 }, (_, i) => JSON.stringify({ id: `many-${i}`, plan: "pro" })).join(
        "\n",
      );
      const answer = await fetch(`${plane.url}/api/v1/apps/default/consumers?wait=30s`, {
        method: "PUT",
        body: lines,
        headers: { "content-type": "application/jsonl", authorization: "Bearer test-admin-token-0123456789" },
      });
      expect(await answer.json()).toMatchObject({ done: 5_000, applied: { gateways: 3, acked: 2 } });
      const unstored = await gateway.metric("sluice_consumers_unstored");
      expect(unstored).toBeGreaterThan(1_000);
      expect(await limitOf(gateway, "kept")).toBe(1_000);
      expect(gateway.log).toContain("lua_shared_dict sluice_consumers is full");
      const { alarms } = (await plane.call("GET", "readyz")).body;
      expect(alarms).toContainEqual({ alarm: "consumers-full", gateways: 1 });
      // Everybody who found room is there, and with the others it is all of them.
      expect((await gateway.metric("sluice_consumers")) + unstored).toBe(
        await (gateways[0] as LoneGateway).metric("sluice_consumers"),
      );
    } finally {
      await gateway.stop();
    }
  });

  it("whose memory is full writes its log anew all the same, and gets what it lacks when it starts with more memory", async () => {
    const memory = (size: string) => (config: string) =>
      config.replace(/sluice_consumers \d+[mk]/, `sluice_consumers ${size}`);
    const gateway = await LoneGateway.start({
      env: {
        SLUICE_GATEWAY_ID: "narrow",
        SLUICE_GATEWAY_TOKEN: "test-gateway-token-0123456789",
        SLUICE_CONTROL_URL: plane.url,
      },
      edit: memory("512k"),
    });
    try {
      await until("three gateways are connected", async () => (await plane.gatewaysHere()) === 3);
      for (const quota of [601, 602, 603, 604]) await importLong(quota, 3, 2);
      expect(await gateway.metric("sluice_consumers_unstored")).toBeGreaterThan(1_000);
      const log = join(gateway.snapshotDir, "consumers.log");
      await until("the log is short again", () => statSync(log).size < 8_388_608 + 1_000_000);
      await plane.kill();
      const known = await gateway.metric("sluice_consumers");
      await gateway.restart(() => {
        const config = join(gateway.directory, "nginx.conf");
        writeFileSync(config, memory("64m")(readFileSync(config, "utf8")));
      });
      // Alone, it knows those that found room before, and knows that it lacks others.
      expect(await gateway.metric("sluice_consumers")).toBeGreaterThanOrEqual(known);
      expect(await gateway.metric("sluice_consumers_unstored")).toBeGreaterThan(1_000);
      await plane.start();
      for (const id of ["long-0", "long-2999"]) {
        await until(`it has ${id}`, async () => (await limitOf(gateway, id)) === 604);
      }
      await until("it lacks nothing", async () => (await gateway.metric("sluice_consumers_unstored")) === 0);
      await until("all gateways are connected", async () => (await plane.gatewaysHere()) === 3);
    } finally {
      await gateway.stop();
    }
  });
});
