import { beforeAll, describe, expect, it } from "vitest";
import { mostKindsOfApp } from "../../../control-plane/src/schemas/ban-body.ts";
import { addUsage } from "../../../control-plane/src/storage/usage.ts";
import { expectedKinds, mostKinds } from "../../../limiter/src/key/key-patterns.ts";
import {
  onePerSecond,
  type Running,
  sharedControlPlane,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";

const bans = "/apps/default/bans";
const nowMs = 1_800_000_000_000;
const byUser = { ...onePerSecond, key: ["header:x-plan", "header:x-user-id"] };

/** Starts a control plane with a clock of its own and the policy books-per-user. */
async function start(): Promise<Running & { pass(ms: number): void }> {
  let time = nowMs;
  const running = await startControlPlane({}, { now: () => time });
  await running.call("PUT", "/apps/default/policies/books-per-user", { body: byUser });
  const pass = (ms: number) => {
    time += ms;
  };
  return { ...running, pass };
}

const ofKey = { policy: "books-per-user", key: ["*", "vip-42*"], for: "1h" };
const ofPattern = { policy: "books-per-user", keyPattern: ["*", "vip-4*"], for: "1h" };

describe("a ban", () => {
  it("of a network is made, shown, pushed, and ended by hand", async () => {
    const running = await start();
    const gateway = await connectGateway(running, "g1");
    expect((await gateway.next("snapshot")).bans).toEqual([]);

    const body = { cidr: "203.0.113.7/24", for: "1h", reason: "scrapes" };
    const post = await running.call("POST", bans, { body });
    const { id } = post.body;
    const ban = {
      id,
      app: "default",
      cidr: "203.0.113.0/24",
      until: new Date(nowMs + 3_600_000).toISOString(),
      reason: "scrapes",
      createdAt: new Date(nowMs).toISOString(),
      createdBy: "environment",
      revision: 2,
    };
    expect([post.status, post.body]).toEqual([201, ban]);
    expect(post.headers.get("location")).toBe(`/api/v1${bans}/${id}`);
    expect((await running.call("GET", `${bans}/${id}`)).body).toEqual(ban);
    expect((await running.call("GET", bans)).body).toEqual({ bans: [ban] });
    expect(await gateway.next("snapshot")).toMatchObject({
      revision: 2,
      bans: [{ id, app: "default", cidr: "203.0.113.0/24", untilSeconds: nowMs / 1_000 + 3_600 }],
    });

    expect(await running.call("DELETE", `${bans}/${id}`)).toMatchObject({ status: 200, body: { revision: 3 } });
    expect(await gateway.next("snapshot")).toMatchObject({ revision: 3, bans: [] });
    for (const method of ["GET", "DELETE"]) {
      expect((await running.call(method, `${bans}/${id}`)).body.code).toBe("ban-not-found");
    }
    expect((await running.call("GET", "/revisions")).body.revisions.slice(0, 2)).toMatchObject([
      { action: "delete-ban", subject: id, summary: `deleted ban default/${id}` },
      { action: "create-ban", subject: id, summary: `created ban default/${id}` },
    ]);
  });

  it("of a policy's key is pushed with its values, or with its patterns", async () => {
    const running = await start();
    const values = (await running.call("POST", bans, { body: ofKey })).body;
    running.pass(1_000);
    const patterns = (await running.call("POST", bans, { body: ofPattern })).body;
    expect([values.key, values.keyPattern]).toEqual([["*", "vip-42*"], undefined]);
    expect([patterns.key, patterns.keyPattern]).toEqual([undefined, ["*", "vip-4*"]]);
    const gateway = await connectGateway(running, "g1");
    const same = { app: "default", policy: "books-per-user", untilSeconds: nowMs / 1_000 + 3_600 };
    const { bans: pushed = [] } = await gateway.next("snapshot");
    expect(pushed.toSorted((a, b) => a.untilSeconds - b.untilSeconds)).toEqual([
      { id: values.id, ...same, key: ["*", "vip-42*"] },
      { id: patterns.id, ...same, untilSeconds: same.untilSeconds + 1, keyPattern: ["*", "vip-4*"] },
    ]);
    expect((await running.call("GET", bans)).body.bans).toMatchObject([
      { key: ["*", "vip-42*"] },
      { keyPattern: ["*", "vip-4*"] },
    ]);
  });

  it("reports in its answer who has applied it, with ?wait", async () => {
    const { call } = await start();
    expect((await call("POST", `${bans}?wait=1s`, { body: ofKey })).body.applied).toEqual({
      gateways: 0,
      acked: 0,
      refused: 0,
    });
  });

  it("ends at its second without another revision", async () => {
    const running = await start();
    running.pass(1);
    const { id } = (await running.call("POST", bans, { body: { cidr: "::1", for: "1s" } })).body;
    running.pass(1_998);
    expect((await running.call("GET", `${bans}/${id}`)).body.until).toBe(new Date(nowMs + 2_000).toISOString());
    running.pass(1);
    expect((await running.call("GET", `${bans}/${id}`)).status).toBe(404);
    expect((await running.call("GET", bans)).body.bans).toEqual([]);
    expect((await running.call("GET", "/revisions")).body.revisions).toHaveLength(2);
    await running.call("PUT", "/apps/shop");
    const gateway = await connectGateway(running, "g1");
    expect(await gateway.next("snapshot")).toMatchObject({ revision: 3, bans: [] });
  });

  it("may state its end as a time in any zone", async () => {
    const { call } = await start();
    const body = { cidr: "10.0.0.1", until: "2030-01-31T12:00:00.5+01:00" };
    expect((await call("POST", bans, { body })).body.until).toBe("2030-01-31T11:00:01.000Z");
  });

  it("is listed in pages, in the order of creation, without those of other apps", async () => {
    const running = await start();
    await running.call("PUT", "/apps/shop");
    await running.call("POST", "/apps/shop/bans", { body: { cidr: "192.0.2.1", for: "1h" } });
    for (const cidr of ["10.0.0.3", "10.0.0.1", "10.0.0.2"]) {
      running.pass(1);
      await running.call("POST", bans, { body: { cidr, for: "1h" } });
    }
    const first = (await running.call("GET", `${bans}?limit=2`)).body;
    const second = (await running.call("GET", `${bans}?limit=2&after=${first.next}`)).body;
    expect([...first.bans, ...second.bans].map(({ cidr }) => cidr)).toEqual([
      "10.0.0.3/32",
      "10.0.0.1/32",
      "10.0.0.2/32",
    ]);
    expect(second).not.toHaveProperty("next");
    const { id } = first.bans[0];
    expect((await running.call("GET", `/apps/shop/bans/${id}`)).status).toBe(404);
    expect((await running.call("DELETE", `/apps/shop/bans/${id}`)).status).toBe(404);
  });

  it("of a policy's key is deleted with the policy: another policy of that name does not inherit it", async () => {
    const { call } = await start();
    await call("POST", bans, { body: ofKey });
    await call("POST", bans, { body: { cidr: "10.0.0.1", for: "1h" } });
    await call("DELETE", "/apps/default/policies/books-per-user");
    expect((await call("GET", bans)).body.bans.map(({ cidr }: { cidr?: string }) => cidr)).toEqual(["10.0.0.1/32"]);
  });

  it("is deleted with its app", async () => {
    const { call } = await start();
    await call("PUT", "/apps/shop");
    await call("POST", "/apps/shop/bans", { body: { cidr: "10.0.0.1", for: "1h" } });
    expect((await call("DELETE", "/apps/shop")).status).toBe(200);
    await call("PUT", "/apps/shop");
    expect((await call("GET", "/apps/shop/bans")).body.bans).toEqual([]);
  });

  it("is refused beyond 10,000 of its app, not counting those that have ended", async () => {
    const running = await start();
    const rows = Array.from({ length: 10_000 }, (_, i) => ({
      id: `b${i}`,
      app: "default",
      cidr: "10.0.0.1/32",
      policy: null,
      key_values: null,
      until_at: nowMs + (i === 0 ? 1_000 : 3_600_000),
      reason: null,
      created_at: nowMs,
      created_by: "x",
      revision: 1,
      bytes: 90,
    }));
    for (let i = 0; i < rows.length; i += 1_000) {
      await running.app.database
        .insertInto("bans")
        .values(rows.slice(i, i + 1_000))
        .execute();
    }
    await running.app.database.transaction().execute(async (transaction) => {
      await addUsage(transaction, "default", { bans: rows.length, banBytes: 90 * rows.length });
    });
    const body = { cidr: "10.0.0.2", for: "1h" };
    const refused = await running.call("POST", bans, { body });
    expect([refused.status, refused.body.code]).toEqual([409, "too-many-bans"]);
    expect((await running.call("GET", "/revisions")).body.revisions).toHaveLength(1);
    running.pass(1_000);
    expect((await running.call("POST", bans, { body })).status).toBe(201);
  });

  it("of patterns is refused if the policy's bans would be of more kinds than a gateway looks up", async () => {
    const running = await start();
    const ban = (who: object, policy = "books-per-user") =>
      running.call("POST", bans, { body: { policy, for: "1h", ...who } });
    for (let length = 1; length <= mostKinds; length++) {
      const { status } = await ban({ keyPattern: ["*", `${"é".repeat(length)}*`] });
      expect(status).toBe(201);
    }
    const refused = await ban({ keyPattern: ["*", "a*"] });
    const errors = [{ path: "keyPattern", expected: expectedKinds, got: `${mostKinds + 1} kinds` }];
    expect([refused.status, refused.body.code, refused.body.errors]).toEqual([400, "invalid-request", errors]);

    // Bans are accepted if they are of a kind that is there, of values, of another policy, or come when the others are over.
    expect((await ban({ keyPattern: ["*", "ab*"] })).status).toBe(201);
    expect((await ban({ key: ["ann", "a*"] })).status).toBe(201);
    await running.call("PUT", "/apps/default/policies/other", { body: byUser });
    expect((await ban({ keyPattern: ["*", "a*"] }, "other")).status).toBe(201);
    // Until the bans of all policies together are of a thousand kinds.
    let count = mostKinds + 1;
    for (let i = 0; count < mostKindsOfApp; i++) {
      await running.call("PUT", `/apps/default/policies/p-${i}`, { body: byUser });
      for (let length = 1; length <= mostKinds && count < mostKindsOfApp; length++, count++)
        expect((await ban({ keyPattern: ["*", `${"b".repeat(length)}*`] }, `p-${i}`)).status).toBe(201);
    }
    const beyond = await ban({ keyPattern: ["*", "ab*"] }, "other");
    const expected = "bans of at most 1,000 kinds in all policies of the app";
    expect([beyond.status, beyond.body.errors]).toEqual([400, [{ path: "keyPattern", expected, got: "1,001 kinds" }]]);
    expect((await ban({ keyPattern: ["*", "b*"] }, "other")).status).toBe(201);
    running.pass(3_600_000);
    expect((await ban({ keyPattern: ["*", "a*"] })).status).toBe(201);
  });
});

describe("an invalid ban is refused, and nothing is pushed:", () => {
  const cidr = "10.0.0.0/8";
  const key = ["a", "b"];
  const policy = "books-per-user";
  const shared = sharedControlPlane({}, { now: () => nowMs });
  beforeAll(async () => {
    const { call } = shared();
    await call("PUT", `/apps/default/policies/${policy}`, { body: byUser });
    await call("PUT", "/apps/default/policies/by-address", { body: { ...onePerSecond, key: ["ip"] } });
  });

  it.each([
    [{}, [": neither", ": none of them"]],
    [{ cidr }, [": neither"]],
    [{ cidr, for: "1h", until: "2030-01-01T00:00:00Z" }, [": both"]],
    [{ cidr, policy, key, for: "1h" }, [": cidr and key and policy"]],
    [{ policy, key, keyPattern: key, for: "1h" }, [": key and keyPattern and policy"]],
    [{ cidr, keyPattern: key, for: "1h" }, [": cidr and keyPattern"]],
    [{ policy, keyPattern: ["a"], for: "1h" }, ["keyPattern: a list of 1"]],
    [{ policy, keyPattern: ["a", "b*c"], for: "1h" }, ['keyPattern[1]: "b*c"']],
    [{ policy: "by-address", keyPattern: ["a"], for: "1h" }, ['keyPattern[0]: "a"']],
    [{ policy: "by-address", key: ["*"], for: "1h" }, ['key[0]: "*"']],
    [{ policy, for: "1h" }, [": policy"]],
    [{ key, for: "1h" }, [": key"]],
    [{ cidr: "10.0.0.0/33", for: "1h" }, ['cidr: "10.0.0.0/33"']],
    [{ cidr: "example.com", for: "1h" }, ['cidr: "example.com"']],
    [{ cidr, for: "0s" }, ['for: "0s"']],
    [{ cidr, for: "an hour" }, ['for: "an hour"']],
    [{ cidr, until: "tomorrow" }, ['until: "tomorrow"']],
    [{ cidr, until: "2030-02-30T00:00:00Z" }, ['until: "2030-02-30T00:00:00Z"']],
    [{ cidr, until: "2030-01-01T25:00:00Z" }, ['until: "2030-01-01T25:00:00Z"']],
    [{ cidr, until: "9999-12-31T23:59:59.5Z" }, ['until: "9999-12-31T23:59:59.5Z"']],
    [{ cidr, until: "9999-12-31T23:59:59-23:59" }, ['until: "9999-12-31T23:59:59-23:59"']],
    [{ cidr, until: "2030-01-01T00:00:00" }, ['until: "2030-01-01T00:00:00"']],
    [{ cidr, until: "2027-01-15T08:00:00Z" }, ['until: "2027-01-15T08:00:00Z"']],
    [{ cidr, until: "2020-01-01T00:00:00Z" }, ['until: "2020-01-01T00:00:00Z"']],
    [{ cidr, for: "1h", reason: 5 }, ["reason: 5"]],
    [{ cidr, for: "1h", colour: "red" }, ['colour: "red"']],
    [{ policy: "films", key, for: "1h" }, ['policy: "films"']],
    [{ policy, key: ["a"], for: "1h" }, ["key: a list of 1"]],
    [{ policy: "by-address", key: ["a"], for: "1h" }, ['key[0]: "a"']],
    [{ policy: "by-address", key: ["10.0.0.0/8"], for: "1h" }, ['key[0]: "10.0.0.0/8"']],
    [{ policy, key: ["a", 5], for: "1h" }, ["key[1]: 5"]],
    [{ policy, key: ["a", "\ud800"], for: "1h" }, ['key[1]: "?"']],
    [{ policy, key: ["a", "x".repeat(257)], for: "1h" }, [`key[1]: "${"x".repeat(80)}…"`]],
  ])("%j", async (body, faults) => {
    const { call } = shared();
    const answer = await call("POST", bans, { body });
    expect([answer.status, answer.body.code]).toEqual([400, "invalid-request"]);
    const reported = answer.body.errors.map(({ path, got }: { path: string; got: string }) => `${path}: ${got}`);
    expect(reported.sort()).toEqual(faults);
    expect((await call("GET", "/revisions")).body.revisions).toHaveLength(2);
  });

  it("one for an app that does not exist", async () => {
    const { call } = shared();
    for (const [method, path] of [
      ["POST", "/apps/none/bans"],
      ["GET", "/apps/none/bans"],
      ["GET", "/apps/none/bans/1"],
      ["DELETE", "/apps/none/bans/1"],
    ] as const) {
      const body = method === "POST" ? { cidr, for: "1h" } : undefined;
      expect((await call(method, path, { body })).body.code).toBe("app-not-found");
    }
  });
});
