import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { protocolVersion, type Snapshot, snapshotFormat } from "@sluice/limiter/protocol/push-messages.ts";
import { describe, expect, it } from "vitest";
import { Fleet } from "../../../control-plane/src/push/fleet.ts";
import type { GatewayLink } from "../../../control-plane/src/push/gateway-link.ts";
import {
  adminToken,
  onePerSecond,
  perSecond,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway, openSocket } from "../../fixtures/servers/gateway-double.ts";
import { untilPasses } from "../../fixtures/until.ts";

/** The message that tells a gateway how many there are. */
const fleet = { type: "fleet", takesActivity: true, protocol: protocolVersion } as const;
const books = "/apps/default/policies/books";

describe("the push socket", () => {
  it.each([
    ["no token", {}, 401],
    ["an unknown token", { authorization: "Bearer sluice_gw_guess" }, 401],
    ["an admin's token", { authorization: `Bearer ${adminToken}` }, 403],
  ])("refuses the upgrade with %s", async (_, headers, status) => {
    const { app, url } = await startControlPlane();
    await expect(openSocket(url, { headers })).rejects.toThrow(`Unexpected server response: ${status}`);
    // A refused socket that stayed open would be a leak that anybody could cause.
    const connections = promisify(app.server.getConnections.bind(app.server));
    await untilPasses(async () => expect(await connections()).toBe(0));
  });

  it("logs refusals once a minute for an address and a reason, without the token", async () => {
    const lines: Record<string, unknown>[] = [];
    let nowMs = 1_000_000;
    const { url } = await startControlPlane(
      { SLUICE_LOG_LEVEL: "warn" },
      { uptimeMs: () => nowMs, logTo: { write: (line) => void lines.push(JSON.parse(line)) } },
    );
    const refused = async (headers: Record<string, string>) =>
      expect(openSocket(url, { headers })).rejects.toThrow("Unexpected server response: 40");
    for (let i = 0; i < 3; i++) await refused({ authorization: "Bearer sluice_gw_guess" });
    await refused({});
    await refused({ authorization: `Bearer ${adminToken}` });
    nowMs += 60_000;
    await refused({ authorization: "Bearer sluice_gw_guess" });
    await untilPasses(() => expect(lines).toHaveLength(4));
    const msg =
      "refused a gateway: its SLUICE_GATEWAY_TOKEN must be the one that a control plane of this database was last started with";
    expect(lines).toMatchObject([
      { level: 40, msg, address: "127.0.0.1", reason: "The token is unknown." },
      { level: 40, msg, address: "127.0.0.1", reason: "No bearer token came with the request." },
      { level: 40, msg, address: "127.0.0.1", reason: "This needs a gateway's token." },
      { level: 40, msg, address: "127.0.0.1", reason: "The token is unknown.", timesSince: 2 },
    ]);
    expect(JSON.stringify(lines)).not.toMatch(`${adminToken}|guess`);
  });

  it("logs that a gateway's connection is lost, and that it is connected again", async () => {
    const lines: Record<string, unknown>[] = [];
    const running = await startControlPlane(
      { SLUICE_LOG_LEVEL: "warn" },
      { logTo: { write: (line) => void lines.push(JSON.parse(line)) } },
    );
    const held = { epoch: "", revision: 0, protocol: protocolVersion };
    const first = await connectGateway(running, "g1", held);
    await first.next("snapshot");
    first.socket.terminate();
    await untilPasses(() => expect(lines).toHaveLength(1));
    const second = await connectGateway(running, "g1", held);
    await second.next("snapshot");
    // A gateway that says goodbye, as on a reload of nginx, is not lost.
    second.socket.close(1001);
    await second.closed;
    await (await connectGateway(running, "g1", held)).next("snapshot");
    expect(lines).toMatchObject([
      { level: 40, msg: "the connection of a gateway is lost", gateway: "g1" },
      { level: 40, msg: "a gateway is connected again", gateway: "g1" },
    ]);
    // Gateways that leave because the control plane stops are not logged.
    await running.stop();
    expect(lines).toHaveLength(2);
  });

  it("leads to a warning for a policy of scope cluster while a gateway has no Redis", async () => {
    // Nobody listens there, and a policy is stored all the same.
    const running = await startControlPlane({ SLUICE_REDIS_URL: "redis://127.0.0.1:9" });
    const put = (name: string, scope: string) =>
      running.call("PUT", `/apps/default/policies/${name}`, { body: { ...perSecond(1), scope } });
    const gateways = await Promise.all(["g1", "g2"].map((id) => connectGateway(running, id)));
    expect((await put("untold", "cluster")).body).not.toHaveProperty("warnings");
    gateways[0]?.say({ type: "status", counters: {}, redis: { state: "unused", sinceSeconds: 1 } });
    gateways[1]?.say({ type: "status", counters: {} });
    const warned = await untilPasses(async () => {
      const { body } = await put(`told-${Math.random()}`.replace(".", "-"), "cluster");
      expect(body.warnings).toBeDefined();
      return body.warnings;
    });
    expect(warned).toEqual([{ path: "scope", expected: "SLUICE_REDIS_URL at every gateway", got: "none at g2" }]);
    expect((await put("alone", "node")).body).not.toHaveProperty("warnings");
  });

  it("answers hello with every policy of every app at the current revision", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop");
    await running.call("PUT", "/apps/shop/policies/b", { body: { description: 'an "ü"', ...perSecond(2) } });
    await running.call("PUT", "/apps/default/policies/a", { body: perSecond(1) });
    const gateway = await connectGateway(running, "g1");
    const { epoch } = running.app.publisher.current;
    const { policies, ...rest } = await gateway.next("snapshot");
    expect(rest).toEqual({
      type: "snapshot",
      format: snapshotFormat,
      epoch,
      revision: 3,
      proof: expect.stringMatching(/^[0-9a-f]{16}\.[0-9a-f]{64}$/),
      edition: running.app.publisher.state.position.edition,
      apps: [{ app: "shop" }],
      bans: [],
      callers: [],
    });
    // In any order.
    expect(policies.sort((a, b) => (a.app < b.app ? -1 : 1))).toEqual([
      { app: "default", document: { name: "a", ...perSecond(1) } },
      { app: "shop", document: { name: "b", description: 'an "ü"', ...perSecond(2) } },
    ]);
  });

  it("sends no snapshot to a gateway that has it, and one to a gateway of another epoch", async () => {
    const running = await startControlPlane();
    await running.call("PUT", books, { body: onePerSecond });
    const { epoch, edition, proof } = await (await connectGateway(running, "first")).next("snapshot");
    const protocol = protocolVersion;
    const current = await connectGateway(running, "current", { epoch, revision: 1, edition, proof, protocol });
    // It knows no editions.
    const earlier = await connectGateway(running, "earlier", { epoch, revision: 1, proof });
    await Promise.all([current.next("fleet"), earlier.next("fleet")]);
    for (const position of [
      { epoch: "another", revision: 1, edition, protocol },
      { epoch: "another", revision: 1 },
      { epoch, revision: 1, edition: "another", proof, protocol },
      { epoch, revision: 1, edition, proof: `another${proof}`, protocol },
    ]) {
      const foreign = await connectGateway(running, "foreign", position);
      expect((await foreign.next("snapshot")).revision, JSON.stringify(position)).toBe(1);
    }
    for (const { received } of [current, earlier])
      expect(new Set(received.map(({ type }) => type))).toEqual(new Set(["fleet"]));
  });

  it("pushes each change at once", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    expect((await gateway.next("snapshot")).policies).toEqual([]);
    await running.call("PUT", books, { body: perSecond(1) });
    expect(await gateway.next("snapshot")).toMatchObject({ revision: 1, policies: [{ document: perSecond(1) }] });
    await running.call("DELETE", books);
    expect(await gateway.next("snapshot")).toMatchObject({ revision: 2, policies: [] });
  });

  it("brings a gateway to the newest revision when changes come faster than it reads", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "slow");
    await gateway.next("snapshot");
    gateway.socket.pause();
    const description = "x".repeat(1900);
    const many = Array.from({ length: 100 }, (_, i) => i);
    await Promise.all(
      many.map((i) => running.call("PUT", `/apps/default/policies/p${i}`, { body: { description, ...perSecond(1) } })),
    );
    for (const i of many) await running.call("PUT", books, { body: perSecond(i + 1) });
    gateway.socket.resume();
    await untilPasses(() => expect(gateway.received.at(-1)).toMatchObject({ type: "snapshot", revision: 200 }));
    const revisions = gateway.received.flatMap((message) => (message.type === "snapshot" ? [message.revision] : []));
    expect(revisions).toEqual([...revisions].sort((a, b) => a - b));
  });

  it("sends every gateway the number of gateways whenever it changes", async () => {
    const running = await startControlPlane();
    const first = await connectGateway(running, "g1");
    expect(await first.next("fleet")).toEqual({ ...fleet, gateways: 1 });
    const second = await connectGateway(running, "g2");
    expect(await second.next("fleet")).toEqual({ ...fleet, gateways: 2 });
    expect(await first.next("fleet")).toEqual({ ...fleet, gateways: 2 });
    second.socket.terminate();
    expect(await first.next("fleet")).toEqual({ ...fleet, gateways: 1 });
  });

  it("replaces the older socket of the same gateway", async () => {
    const running = await startControlPlane();
    const older = await connectGateway(running, "g1");
    await older.next("fleet");
    const newer = await connectGateway(running, "g1");
    expect(await older.closed).toBe(4000);
    expect(await newer.next("fleet")).toEqual({ ...fleet, gateways: 1 });
    const { gateways } = (await running.call("GET", "/gateways")).body;
    expect(gateways).toMatchObject([{ id: "g1", connected: true }]);
  });

  it.each([
    ["text that is not JSON", "{"],
    ["an unknown type", '{"type":"dance"}'],
    ["a report without its revision", '{"type":"applied","epoch":"e"}'],
    ["a negative revision", '{"type":"applied","epoch":"e","revision":-1}'],
    ["problems that are none", '{"type":"refused","epoch":"e","revision":1,"problems":[{"path":1}]}'],
    ["counters that do not count", '{"type":"status","counters":{"a":"1"}}'],
    ["a second hello", '{"type":"hello","gateway":"g2","version":"1","workers":1,"epoch":"","revision":0}'],
  ])("closes the socket with 1008 for %s", async (_, text) => {
    const gateway = await connectGateway(await startControlPlane(), "g1");
    gateway.say(text);
    expect(await gateway.closed).toBe(1008);
  });

  it("takes a refusal with any number of problems, and keeps the first ones and the beginning of each text", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g".repeat(128));
    const { epoch, revision } = await gateway.next("snapshot");
    const problems = Array.from({ length: 5_000 }, (_, i) => ({ path: `${i}`, expected: "less", got: "more" }));
    problems[0] = { path: "é".repeat(5_000), expected: "less", got: "more" };
    gateway.say({ type: "refused", epoch, revision, problems });
    await untilPasses(async () => {
      const { refused } = (await running.call("GET", "/gateways")).body.gateways[0];
      expect(refused.errors).toHaveLength(21);
      expect(refused.errors[0].path).toBe(`${"é".repeat(250)}…`);
      expect(refused.errors[20]).toEqual({ path: "20", expected: "less", got: "more" });
    });
    expect(gateway.socket.readyState).toBe(gateway.socket.OPEN);
  });

  it("closes the socket for a binary message, a report before hello, and a message over 1 MiB", async () => {
    const running = await startControlPlane();
    const binary = await connectGateway(running, "g1");
    binary.socket.send(Buffer.from('{"type":"status","counters":{}}'));
    expect(await binary.closed).toBe(1008);
    const early = await openSocket(running.url);
    early.say({ type: "applied", epoch: "e", revision: 1 });
    expect(await early.closed).toBe(1008);
    const large = await connectGateway(running, "g2");
    large.say(`{"type":"status","counters":{"${"a".repeat(1024 * 1024)}":1}}`);
    expect(await large.closed).toBe(1009);
  });

  it("closes a socket that never says hello", async () => {
    const pushTimes = { pingEveryMs: 1_000, silenceMs: 3_000, helloMs: 50 };
    const { url } = await startControlPlane({}, { pushTimes });
    expect(await (await openSocket(url)).closed).toBe(1008);
  });

  it("cuts a gateway whose message does not end, though it answers pings", async () => {
    const pushTimes = { pingEveryMs: 20, silenceMs: 200, helloMs: 1_000 };
    const running = await startControlPlane({}, { pushTimes });
    const small = await connectGateway(running, "small");
    small.socket.send(Buffer.alloc(10, "x"), { fin: false });
    const large = await connectGateway(running, "large");
    await large.next("fleet");
    large.socket.send(Buffer.alloc(10_000, "x"), { fin: false });
    expect(await large.closed).toBe(1006);
    expect(small.socket.readyState).toBe(small.socket.OPEN);
  });

  it("cuts a gateway that answers no ping, and keeps one that does", async () => {
    const pushTimes = { pingEveryMs: 20, silenceMs: 200, helloMs: 1_000 };
    const running = await startControlPlane({}, { pushTimes });
    const alive = await connectGateway(running, "alive");
    const lost = await connectGateway(running, "lost", undefined, { autoPong: false });
    expect(await lost.closed).toBe(1006);
    expect(alive.socket.readyState).toBe(alive.socket.OPEN);
  });

  it("closes with goodbye when the control plane stops", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    await running.stop();
    expect(await gateway.closed).toBe(1001);
  });
});

describe("?wait", () => {
  it("answers at once when no gateway is connected", async () => {
    const { call } = await startControlPlane();
    const { body } = await call("PUT", `${books}?wait=60s`, { body: onePerSecond });
    expect(body).toEqual({ revision: 1, applied: { gateways: 0, acked: 0, refused: 0 } });
  });

  it("answers when every gateway has applied or refused the revision, not before", async () => {
    const running = await startControlPlane();
    const good = await connectGateway(running, "good");
    const picky = await connectGateway(running, "picky");
    for (const gateway of [good, picky]) await gateway.next("snapshot");
    let answered = false;
    const put = running
      .call("PUT", `${books}?wait=60s`, { body: { ...onePerSecond, scope: "node" } })
      .finally(() => (answered = true));
    good.apply(await good.next("snapshot"));
    const { epoch, revision } = await picky.next("snapshot");
    await untilPasses(async () => {
      const { gateways } = (await running.call("GET", "/gateways")).body;
      expect(gateways[0]).toMatchObject({ id: "good", revision: 1, lag: 0 });
    });
    expect(answered).toBe(false);
    picky.say({ type: "refused", epoch, revision, problems: [{ path: "", expected: "less", got: "more" }] });
    const refusals = [{ gateway: "picky", revision: 1, errors: [{ path: "", expected: "less", got: "more" }] }];
    expect((await put).body).toEqual({ revision: 1, applied: { gateways: 2, acked: 1, refused: 1, refusals } });
  });

  it("answers with the count so far when the time is over", async () => {
    const running = await startControlPlane();
    await (await connectGateway(running, "silent")).next("snapshot");
    const { status, body } = await running.call("PUT", `${books}?wait=50ms`, { body: onePerSecond });
    expect(status).toBe(201);
    expect(body).toEqual({ revision: 1, applied: { gateways: 1, acked: 0, refused: 0 } });
  });

  it("waits for a deletion, and for a document that changed nothing", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    gateway.socket.on("message", (data) => {
      const message = JSON.parse(data.toString());
      if (message.type === "snapshot") gateway.apply(message);
    });
    const applied = { gateways: 1, acked: 1, refused: 0 };
    await running.call("PUT", books, { body: onePerSecond });
    const same = await running.call("PUT", `${books}?wait=60s`, { body: onePerSecond });
    expect(same.body).toEqual({ revision: 1, applied });
    expect((await running.call("DELETE", `${books}?wait=60s`)).body).toEqual({ revision: 2, applied });
  });

  it("no longer waits for a gateway that goes away", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    await gateway.next("snapshot");
    const put = running.call("PUT", `${books}?wait=60s`, { body: onePerSecond });
    await gateway.next("snapshot");
    gateway.socket.terminate();
    expect((await put).body.applied).toEqual({ gateways: 0, acked: 0, refused: 0 });
  });

  it("ends when the control plane stops", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    await gateway.next("snapshot");
    const put = running.call("PUT", `${books}?wait=60s`, { body: onePerSecond });
    await gateway.next("snapshot");
    await running.stop();
    expect((await put).body.applied).toMatchObject({ acked: 0 });
  });
});

describe("GET /gateways", () => {
  it("comes in pages of the limit, and of a megabyte at most, and each gateway comes once", async () => {
    const running = await startControlPlane();
    const ids = Array.from({ length: 210 }, (_, i) => `Zürich ${String(i).padStart(3, "0")}`);
    const text = "x".repeat(300);
    const problems = Array.from({ length: 20 }, () => ({ path: text, expected: text, got: text }));
    for (const id of ids) {
      const gateway = await connectGateway(running, id);
      gateway.say({ type: "refused", epoch: "e", revision: 1, problems });
      await gateway.untilHeard();
    }
    const pages = async (limit: string) => {
      const found: { ids: string[]; bytes: number; connected: number }[] = [];
      for (let next: string | undefined = ""; next !== undefined; ) {
        const { body } = await running.call("GET", `/gateways?after=${encodeURIComponent(next)}${limit}`);
        const { gateways, connected } = body as { gateways: { id: string }[]; connected: number };
        found.push({ ids: gateways.map(({ id }) => id), bytes: JSON.stringify(body).length, connected });
        next = body.next;
      }
      expect(found.flatMap((page) => page.ids)).toEqual(ids);
      expect(found.every(({ connected }) => connected === 210)).toBe(true);
      return found;
    };
    expect((await pages("")).map((page) => page.ids.length)).toEqual([100, 100, 10]);
    expect((await pages("&limit=105")).map((page) => page.ids.length)).toEqual([105, 105]);
    const large = await pages("&limit=1000");
    expect(large.length).toBeGreaterThan(1);
    expect(Math.max(...large.map(({ bytes }) => bytes))).toBeLessThan(1_010_000);
    expect((await running.call("GET", "/gateways?limit=1001")).status).toBe(400);
  });

  it("shows what each gateway enforces, how far behind it is, what it refused and counted", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    gateway.apply(await gateway.next("snapshot"));
    await running.call("PUT", books, { body: perSecond(1) });
    const { epoch, revision } = await gateway.next("snapshot");
    const problems = [{ path: "limits", expected: "fewer", got: "a list of 1" }];
    gateway.say({ type: "refused", epoch, revision, problems });
    gateway.say({ type: "status", counters: { allowed: 7, refused: 2 } });
    await untilPasses(async () => {
      const { body } = await running.call("GET", "/gateways");
      expect(body).toEqual({
        revision: 1,
        consumersPosition: 0,
        connected: 1,
        redis: { state: "not-configured" },
        gateways: [
          {
            id: "g1",
            connected: true,
            connectedAt: expect.stringMatching(/^\d{4}-.*Z$/),
            version: "0.1.0",
            workers: 2,
            protocol: 1,
            revision: 0,
            lag: 1,
            alarm: "snapshot-refused",
            refused: { revision: 1, at: expect.any(String), errors: problems },
            counters: { allowed: 7, refused: 2 },
            errors: null,
            warnings: [],
            redis: null,
            consumers: null,
          },
        ],
      });
    });
    await running.call("PUT", books, { body: perSecond(2) });
    gateway.apply(await gateway.next("snapshot"));
    await untilPasses(async () => {
      const { body } = await running.call("GET", "/gateways");
      expect(body.gateways[0]).toMatchObject({ revision: 2, lag: 0, refused: null });
    });
  });

  it("shows a gateway of another history as behind by all of this one", async () => {
    const running = await startControlPlane();
    await running.call("PUT", books, { body: onePerSecond });
    const gateway = await connectGateway(running, "g1", { epoch: "another", revision: 99 });
    await gateway.next("fleet");
    expect((await running.call("GET", "/gateways")).body.gateways[0]).toMatchObject({ revision: 0, lag: 1 });
  });

  it("remembers a gateway that left for an hour", async () => {
    let nowMs = Date.parse("2026-01-01T00:00:00Z");
    const running = await startControlPlane({}, { now: () => nowMs });
    const gateway = await connectGateway(running, "g1");
    await gateway.next("fleet");
    gateway.socket.terminate();
    await untilPasses(async () => {
      const { gateways } = (await running.call("GET", "/gateways")).body;
      expect(gateways).toMatchObject([{ id: "g1", connected: false, disconnectedAt: "2026-01-01T00:00:00.000Z" }]);
    });
    nowMs += 3_600_000;
    expect((await running.call("GET", "/gateways")).body.gateways).toHaveLength(1);
    nowMs += 1;
    expect((await running.call("GET", "/gateways")).body.gateways).toEqual([]);
  });

  it("appears in the metrics", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    const { epoch, revision } = await gateway.next("snapshot");
    gateway.say({ type: "refused", epoch, revision, problems: [] });
    await running.call("PUT", books, { body: onePerSecond });
    await gateway.next("snapshot");
    await untilPasses(async () => {
      const lines = (await running.call("GET", "metrics")).body.split("\n");
      expect(lines).toContain("sluice_control_revision 1");
      expect(lines).toContain("sluice_control_gateways_connected 1");
      expect(lines).toContain("sluice_control_snapshots_sent_total 2");
      expect(lines).toContain("sluice_control_snapshots_refused_total 1");
      expect(lines).toContain('sluice_control_http_requests_total{class="2xx"} 1');
    });
  });
});

describe("a gateway that comes back after a restart of the control plane", () => {
  it.each([
    ["version 1 of the protocol", 1],
    ["the newest version of the protocol", protocolVersion],
  ])("is still current, with %s", async (_, protocol) => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const first = await startControlPlane({ SLUICE_DATA_DIR });
    await first.call("PUT", books, { body: onePerSecond });
    const { epoch, revision, edition, proof } = await (await connectGateway(first, "g1")).next("snapshot");
    await first.stop();
    const second = await startControlPlane({ SLUICE_DATA_DIR });
    const held = protocol === 1 ? { epoch, revision, proof } : { epoch, revision, edition, proof, protocol };
    const gateway = await connectGateway(second, "g1", held);
    await gateway.next("fleet");
    expect(gateway.received).toEqual([{ ...fleet, gateways: 1 }]);
  });
});

describe("a database that was rolled back", () => {
  /** Makes four revisions, of which a gateway has the fourth, and restores a backup of the second. */
  async function restored() {
    const SLUICE_DATA_DIR = await temporaryDir();
    const file = join(SLUICE_DATA_DIR, "sluice.db");
    const first = await startControlPlane({ SLUICE_DATA_DIR });
    for (const quota of [1, 2]) await first.call("PUT", books, { body: perSecond(quota) });
    await first.stop();
    await copyFile(file, `${file}.backup`);
    const second = await startControlPlane({ SLUICE_DATA_DIR });
    const proofs = new Map<number, string | undefined>();
    const before = await connectGateway(second, "g1");
    for (const quota of [2, 3, 4]) {
      await second.call("PUT", books, { body: perSecond(quota) });
      const { revision, proof } = await before.next("snapshot");
      proofs.set(revision, proof);
    }
    const { epoch } = second.app.publisher.current;
    expect([...proofs.keys()]).toEqual([2, 3, 4]);
    await second.stop();
    await copyFile(`${file}.backup`, file);
    const lines: string[] = [];
    const logTo = { write: (line: string) => void lines.push(line) };
    const running = await startControlPlane({ SLUICE_DATA_DIR, SLUICE_LOG_LEVEL: "warn" }, { logTo });
    const heldAt = (revision: number) => ({ epoch, revision, proof: proofs.get(revision) });
    return { running, held: heldAt(4), heldAt, lines };
  }

  it("gets a new epoch, which gateways with later revisions of the old one take", async () => {
    const { running, held, lines } = await restored();
    const gateway = await connectGateway(running, "g1", held);
    const snapshot = await gateway.next("snapshot");
    expect(snapshot).toMatchObject({ revision: 3, policies: [{ document: perSecond(2) }] });
    expect(snapshot.epoch).not.toBe(held.epoch);
    expect(gateway.received.filter(({ type }) => type === "snapshot")).toEqual([snapshot]);

    const [entry] = (await running.call("GET", "/revisions")).body.revisions;
    expect(entry).toMatchObject({ n: 3, who: "control plane", action: "new-epoch" });
    expect(entry.summary).toMatch(/^began a new history: .*restore/);
    expect(lines.filter((line) => line.includes("beginning a new history"))).toHaveLength(1);
  });

  it("gets one new epoch, however many gateways have later revisions of the old one", async () => {
    const { running, held, heldAt, lines } = await restored();
    const gateways = await Promise.all(["g1", "g2", "g3"].map((id, i) => connectGateway(running, id, heldAt(2 + i))));
    const epochs = await Promise.all(gateways.map(async (gateway) => (await gateway.next("snapshot")).epoch));
    expect(new Set(epochs).size).toBe(1);
    for (const gateway of gateways) {
      gateway.say({ type: "applied", ...held });
      await connectGateway(running, "again", held);
    }
    expect((await running.call("GET", "/revisions")).body.revisions).toHaveLength(3);
    expect(lines.filter((line) => line.includes("beginning a new history"))).toHaveLength(1);
  });

  it("keeps ?wait until gateways have taken the new epoch", async () => {
    const { running, held } = await restored();
    const gateway = await connectGateway(running, "g1", held);
    let answered = false;
    const put = running.call("PUT", `${books}?wait=60s`, { body: perSecond(5) }).finally(() => (answered = true));
    await untilPasses(() => {
      const newest = gateway.received.findLast((message) => message.type === "snapshot");
      expect(newest).toMatchObject({ policies: [{ document: perSecond(5) }] });
    });
    expect(answered).toBe(false);
    gateway.apply(gateway.received.findLast((message) => message.type === "snapshot") as Snapshot);
    expect((await put).body).toMatchObject({ applied: { gateways: 1, acked: 1, refused: 0 } });
  });

  it("is noticed while the control plane runs, too", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    for (const quota of [1, 2, 3]) await running.call("PUT", books, { body: perSecond(quota) });
    await untilPasses(() => expect(gateway.received.at(-1)).toMatchObject({ revision: 3 }));
    const { epoch } = running.app.publisher.current;
    const database = new DatabaseSync(join(running.dataDir, "sluice.db"));
    database.exec("delete from revisions where number > 1; update meta set revision = 1");
    database.close();
    await running.call("PUT", books, { body: perSecond(4) });
    await untilPasses(() => expect(gateway.received.at(-1)).toMatchObject({ policies: [{ document: perSecond(4) }] }));
    expect(running.app.publisher.current.epoch).not.toBe(epoch);
  });

  it("is not assumed if a gateway comes from another control plane on the same database", async () => {
    const control = await startControlPlane();
    const { epoch } = control.app.publisher.current;
    // This is what another control plane does to the database; SQLite allows only one.
    const database = new DatabaseSync(join(control.dataDir, "sluice.db"));
    database.exec(`
      insert into revisions (number, at, who, action, app) values (1, 0, 'another', 'create-app', 'books');
      insert into apps (name, created_at, revision) values ('books', 0, 1);
      update meta set revision = 1;
    `);
    database.close();
    expect(control.app.publisher.current.revision).toBe(0);
    const gateway = await connectGateway(control, "g1", { epoch, revision: 1 });
    await gateway.next("fleet");
    await untilPasses(() => expect(control.app.publisher.current).toMatchObject({ epoch, revision: 1 }));
    expect((await control.call("GET", "/revisions")).body.revisions).toHaveLength(1);
  });
});

describe("a gateway counts as having applied a revision", () => {
  const newest = { epoch: "e", revision: 5 };

  it.each([
    ["the revision itself", { epoch: "e", revision: 4 }, { acked: 1, refused: 0 }],
    ["a later one", newest, { acked: 1, refused: 0 }],
    ["an earlier one", { epoch: "e", revision: 3 }, { acked: 0, refused: 0 }],
    ["one of another epoch", { epoch: "f", revision: 5 }, { acked: 0, refused: 0 }],
    ["one that this history does not have", { epoch: "e", revision: 6 }, { acked: 0, refused: 0 }],
  ])("if it has %s", (_, held, expected) => {
    const fleet = new Fleet(() => 0);
    fleet.join({ type: "hello", gateway: "g1", version: "1", workers: 1, ...held }, {} as GatewayLink);
    expect(fleet.applied(newest, 4)).toEqual({ gateways: 1, ...expected });
    expect(fleet.settled(newest) >= 4).toBe(expected.acked + expected.refused === 1);
  });

  it("unless it refused that revision or its successor", () => {
    for (const [revision, refused] of [
      [3, 0],
      [4, 1],
      [5, 1],
    ] as const) {
      const fleet = new Fleet(() => 0);
      const link = {} as GatewayLink;
      fleet.join({ type: "hello", gateway: "g1", version: "1", workers: 1, epoch: "e", revision: 4 }, link);
      fleet.report("g1", link, { type: "refused", epoch: "e", revision, problems: [] });
      const refusals = refused === 0 ? {} : { refusals: [{ gateway: "g1", revision, problems: [] }] };
      expect(fleet.applied(newest, 4)).toEqual({ gateways: 1, acked: 1 - refused, refused, ...refusals });
      // Either way the gateway has reported on it.
      expect(fleet.settled(newest)).toBe(Math.max(4, revision));
    }
  });
});
