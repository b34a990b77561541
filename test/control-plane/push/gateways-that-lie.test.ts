// A gateway's token may be used by a broken gateway, or by somebody else: it is believed about itself only, and what it sends
// is kept within bounds.

import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { mostUnfinishedBytes } from "../../../control-plane/src/http/connections.ts";
import { Fleet } from "../../../control-plane/src/push/fleet.ts";
import type { GatewayLink } from "../../../control-plane/src/push/gateway-link.ts";
import { readGatewayMessage } from "../../../control-plane/src/push/gateway-message.ts";
import {
  onePerSecond,
  perSecond,
  type Running,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway, type GatewayDouble, openSocket } from "../../fixtures/servers/gateway-double.ts";
import { untilPasses } from "../../fixtures/until.ts";

const nothingHeld = { epoch: "", position: 0, count: 0, unstored: 0 };
/** Some 250 KB in each message. */
const manyConsumers = Array.from({ length: 3_000 }, (_, i) =>
  JSON.stringify({ id: `${"x".repeat(220)}-${i}`, plan: "free" }),
).join("\n");
const books = "/apps/default/policies/books";
const history = async (running: Running) => (await running.call("GET", "/revisions")).body.revisions;

describe("a gateway that claims revisions which never were", () => {
  it.each([
    ["no proof", undefined],
    ["a made-up proof", "0".repeat(64)],
  ])("writes no history and pushes nothing, with %s", async (_, proof) => {
    const running = await startControlPlane();
    await running.call("PUT", books, { body: onePerSecond });
    const honest = await connectGateway(running, "honest");
    const { epoch, revision } = await honest.next("snapshot");
    const liar = await connectGateway(running, "liar", { epoch, revision: 1_000, proof });
    await liar.next("fleet");
    for (let i = 1; i <= 500; i++) liar.say({ type: "applied", epoch, revision: 1_000 * i });
    for (let i = 0; i < 20; i++) {
      await (await connectGateway(running, `liar${i}`, { epoch, revision: 1_000 + i, proof })).untilHeard();
    }
    await liar.untilHeard();
    expect(await history(running)).toHaveLength(1);
    expect(running.app.publisher.current).toMatchObject({ epoch, revision });
    expect(honest.received.filter(({ type }) => type === "snapshot")).toHaveLength(1);
    const { alarms } = (await running.call("GET", "readyz")).body;
    expect(alarms).toEqual([{ alarm: "revision-unknown", gateways: 21 }]);
  });

  it("gets proofs of past revisions, which prove nothing else", async () => {
    const running = await startControlPlane();
    await running.call("PUT", books, { body: onePerSecond });
    const first = await (await connectGateway(running, "g1")).next("snapshot");
    const liar = await connectGateway(running, "liar", { epoch: first.epoch, revision: 2, proof: first.proof });
    await liar.untilHeard();
    await running.call("DELETE", books);
    const late = await connectGateway(running, "late", { epoch: first.epoch, revision: 1, proof: first.proof });
    await late.untilHeard();
    expect((await history(running)).map(({ action }: { action: string }) => action)).toEqual([
      "delete-policy",
      "create-policy",
    ]);
  });
});

describe("a gateway that answers what another one was asked", () => {
  it("is not believed: each gateway reports only its own counters", async () => {
    const running = await startControlPlane();
    await running.call("PUT", books, { body: onePerSecond });
    const asked = await connectGateway(running, "asked");
    asked.apply(await asked.next("snapshot"));
    const liar = await connectGateway(running, "liar");
    liar.apply(await liar.next("snapshot"));
    const answer = running.call("GET", "/apps/default/counters?policy=books");
    const { id: idOfLiar } = await liar.next("counter");
    const { id } = await asked.next("counter");
    const limits = (remaining: number) => [{ name: "default", capacity: 1, remaining, resetAfterUs: 0 }];
    for (const guess of [id, idOfLiar]) liar.say({ type: "counter", id: guess, limits: limits(1) });
    await liar.untilHeard();
    asked.say({ type: "counter", id, limits: limits(0) });
    expect((await answer).body.gateways).toMatchObject([
      { id: "asked", state: "done", limits: [{ remaining: 0 }] },
      { id: "liar", state: "done", limits: [{ remaining: 1 }] },
    ]);
  });
});

describe("a gateway that reads nothing", () => {
  const unreadOf = ({ app }: Running) =>
    Math.max(0, ...[...app.websocketServer.clients].map((one) => one.bufferedAmount));

  it("has one message with consumers in memory, however many it asks for", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/default/consumers", { text: manyConsumers, type: "application/jsonl" });
    const liar = await connectGateway(running, "liar", { epoch: "", revision: 0, protocol: 3, consumers: nothingHeld });
    const { epoch } = await liar.next("consumers");
    liar.socket.pause();
    for (let position = 1; position <= 300; position++) {
      liar.say({ type: "consumers", epoch, position, count: 0, unstored: 0 });
      // Each one is heard in a turn of its own, and what it asks for is read meanwhile.
      await sleep(5);
    }
    expect(unreadOf(running)).toBeLessThan(1_048_576);
  });

  it("is cut when it leaves more than 8 MiB unread, of whatever it is sent", async () => {
    const running = await startControlPlane();
    const liar = await connectGateway(running, "liar");
    await liar.next("fleet");
    liar.socket.pause();
    const [link] = running.app.fleet.links();
    for (let i = 0; i < 20; i++) link?.sendText("x".repeat(1_048_576));
    await untilPasses(() => expect(running.app.fleet.connectedCount).toBe(0));
    const metrics = (await running.call("GET", "metrics")).body;
    expect(metrics).toContain('\nsluice_control_connections_cut_total{reason="unread"} 1\n');
  });
});

describe("a gateway that connects again and again and answers no close frame", () => {
  it("has one socket a second later, and the newest one goes on", async () => {
    const running = await startControlPlane();
    const sockets: GatewayDouble[] = [];
    for (let i = 0; i < 50; i++) {
      const liar = await connectGateway(running, "liar");
      await liar.next("fleet");
      liar.socket.pause();
      sockets.push(liar);
    }
    const beganAtMs = performance.now();
    await untilPasses(() => expect(running.app.websocketServer.clients.size).toBe(1));
    expect(performance.now() - beganAtMs).toBeLessThan(5_000);
    sockets.at(-1)?.socket.resume();
    await sockets.at(-1)?.untilHeard();
  });
});

describe("gateways that do not end their messages", () => {
  it("have 64 MiB in memory, all together, and others go on", async () => {
    const running = await startControlPlane();
    const honest = await connectGateway(running, "honest", undefined, { localAddress: "127.0.0.2" });
    const liars: GatewayDouble[] = [];
    // Some have said hello, and some have not.
    for (let i = 0; i < 50; i++) liars.push(await connectGateway(running, `liar-${i}`));
    for (let i = 0; i < 50; i++) liars.push(await openSocket(running.url));
    let bytes = 0;
    for (const { socket } of liars) {
      await new Promise((sent) => socket.send("x".repeat(1_000_000), { fin: false }, sent));
      bytes += 1_000_000;
    }
    expect(bytes).toBeGreaterThan(mostUnfinishedBytes);
    await untilPasses(() => {
      const open = liars.filter(({ socket }) => socket.readyState === socket.OPEN).length;
      expect(open * 1_000_000).toBeLessThanOrEqual(mostUnfinishedBytes);
      expect(open).toBeGreaterThan(60);
    });
    await honest.untilHeard();
    const metrics = (await running.call("GET", "metrics")).body;
    expect(metrics).toMatch(/\nsluice_control_connections_cut_total\{reason="unfinished"\} [1-9]/);
  });
});

describe("a gateway that asks for ever other consumers", () => {
  it("gets some once a second, and each read costs the database no more often", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/default/consumers", { text: manyConsumers, type: "application/jsonl" });
    const liar = await connectGateway(running, "liar", { epoch: "", revision: 0, protocol: 3, consumers: nothingHeld });
    const { epoch } = await liar.next("consumers");
    const beganAtMs = performance.now();
    for (let position = 1; position <= 300; position++) {
      liar.say({ type: "consumers", epoch, position, count: 0, unstored: 0 });
      await sleep(5);
    }
    await liar.untilHeard();
    const seconds = (performance.now() - beganAtMs) / 1_000;
    const sent = liar.received.filter(({ type }) => type === "consumers").length;
    expect(sent).toBeLessThanOrEqual(2 + seconds);
    // The last one that it asked for comes, too: it may have lost some in earnest.
    await untilPasses(() => expect(liar.received.at(-1)).toMatchObject({ type: "consumers", from: 300 }));
  });
});

it("a gateway answers an order about a counter with as many limits as a policy may have, and with names that limits may have", () => {
  const answer = (limits: number, name = "x".repeat(63)) => {
    const list = Array.from({ length: limits }, () => ({ name, capacity: 1, remaining: 0, resetAfterUs: 1 }));
    return readGatewayMessage(JSON.stringify({ type: "counter", id: 1, limits: list }));
  };
  expect(answer(16)).toBeDefined();
  expect(answer(17)).toBeUndefined();
  expect(answer(1, "x".repeat(64))).toBeUndefined();
});

describe("a gateway that says when its Redis began to fail", () => {
  const status = (sinceSeconds: number) =>
    JSON.stringify({ type: "status", counters: {}, redis: { state: "failing", sinceSeconds } });

  it("says a time that a date can have: another one would make GET /gateways fail for everybody", () => {
    expect(readGatewayMessage(status(253_402_300_799))).toBeDefined();
    expect(readGatewayMessage(status(253_402_300_800))).toBeUndefined();
    expect(readGatewayMessage(status(Number.MAX_SAFE_INTEGER))).toBeUndefined();
  });
});

describe("a gateway that says the same thousands of times", () => {
  it("is in the log once a minute, with how often it was since", async () => {
    const lines: { msg: string; timesSince?: number }[] = [];
    let nowMs = 1_000_000;
    const running = await startControlPlane(
      { SLUICE_LOG_LEVEL: "warn" },
      { uptimeMs: () => nowMs, logTo: { write: (line) => void lines.push(JSON.parse(line)) } },
    );
    const liar = await connectGateway(running, "liar");
    const other = await connectGateway(running, "other");
    const refuse = (gateway: typeof liar, epoch: string) =>
      gateway.say({ type: "refused", epoch, revision: 0, problems: [] });
    for (let i = 0; i < 3_000; i++) refuse(liar, "x");
    refuse(other, "x");
    await Promise.all([liar.untilHeard(), other.untilHeard()]);
    nowMs += 60_000;
    refuse(liar, "x");
    await liar.untilHeard();
    const refused = lines.filter(({ msg }) => msg === "a gateway refused a snapshot");
    expect(refused.map(({ timesSince }) => timesSince)).toEqual([undefined, undefined, 2_999]);
  });
});

describe("a gateway that reports traffic which cannot be", () => {
  const nowMs = 1_900_000_000_000;
  const counts = { allowed: 1, refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };
  const ofPolicy = { app: "default", policy: "books", fromMs: nowMs - 500, ...counts };
  const ofKeys = { app: "default", policy: "books", key: ["ip/32/64"], result: "refused", sinceMs: nowMs };
  const keys = { ...ofKeys, keys: ["1:::"], counts: [1], error: 0, unlisted: 0 };
  const message = (policy: object, key: object = {}) => {
    const worker = { toMs: nowMs, policies: [{ ...ofPolicy, ...policy }], keys: [{ ...keys, ...key }] };
    return JSON.stringify({ type: "activity", nowMs, workers: [worker] });
  };

  it("is understood if all is possible", () => {
    expect(readGatewayMessage(message({}))).toMatchObject({ workers: [{ policies: [ofPolicy], keys: [keys] }] });
  });

  it("is not understood with more policies than a gateway reports at once", () => {
    const policies = (length: number) =>
      JSON.stringify({
        type: "activity",
        nowMs,
        workers: [1, 2].map(() => ({ toMs: nowMs, policies: Array(length).fill(ofPolicy), keys: [] })),
      });
    expect(readGatewayMessage(policies(250))).toBeDefined();
    expect(readGatewayMessage(policies(251))).toBeUndefined();
  });

  it.each([
    ["a negative count", { allowed: -1 }, {}],
    ["half a request", { refused: 0.5 }, {}],
    ["a count that is no exact number", { delayed: 2 ** 53 }, {}],
    ["a count that is a text", { degraded: "1" }, {}],
    ["the app's own sum as a policy", { policy: "" }, {}],
    ["a policy of another app in the name of an app", { app: "shop/books" }, {}],
    ["a name in capitals", { policy: "Books" }, {}],
    ["a long name", { app: "a".repeat(64) }, {}],
    ["a time before 1970", { fromMs: -1 }, {}],
    ["a key of a megabyte", {}, { keys: ["k".repeat(1_000_000)] }],
    ["more keys than any gateway has", {}, { keys: Array(1_001).fill("1:a") }],
    ["a result that there is not", {}, { result: "delayed" }],
    ["no key of the policy", {}, { key: undefined }],
    ["a negative error", {}, { error: -1 }],
  ])("is not understood, with %s", (_, policy, key) => {
    expect(readGatewayMessage(message(policy, key))).toBeUndefined();
  });
});

it.each(["gateway-1", "Zürich", "東京 2"])("a gateway may be called %j", (gateway) => {
  expect(readGatewayMessage(JSON.stringify(hello(gateway)))).toMatchObject({ gateway });
});

it.each([
  "gateway\u200b",
  "\u202e1-yawetag",
  "gate\u00adway",
  "\u3164",
  "gateway\u2028",
  "gateway\ufe0f",
  "gateway\u0085",
  "gate\u009bway",
])("a gateway may not be called %j: people would take it for another one", (gateway) =>
  expect(readGatewayMessage(JSON.stringify(hello(gateway)))).toBeUndefined(),
);

function hello(gateway: string) {
  return { type: "hello", gateway, version: "1", workers: 1, epoch: "", revision: 0 };
}

describe("a database that was restored from a backup made before there were proofs", () => {
  it("is an alarm, until an admin of all apps starts a new history", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const file = join(SLUICE_DATA_DIR, "sluice.db");
    const first = await startControlPlane({ SLUICE_DATA_DIR });
    await first.call("PUT", books, { body: perSecond(1) });
    await first.stop();
    await copyFile(file, `${file}.backup`);
    const second = await startControlPlane({ SLUICE_DATA_DIR });
    await second.call("PUT", books, { body: perSecond(2) });
    const { epoch } = second.app.publisher.current;
    await second.stop();
    await copyFile(`${file}.backup`, file);

    const running = await startControlPlane({ SLUICE_DATA_DIR });
    const gateway = await connectGateway(running, "g1", { epoch, revision: 2 });
    await gateway.next("fleet");
    expect((await running.call("GET", "readyz")).body.alarms).toEqual([{ alarm: "revision-unknown", gateways: 1 }]);
    const { token } = (await running.call("POST", "/tokens", { body: { name: "x", app: "default", role: "owner" } }))
      .body;
    expect((await running.call("POST", "/epoch", { token })).status).toBe(403);
    const begun = running.call("POST", "/epoch?wait=30s");
    const snapshot = await gateway.next("snapshot");
    expect(snapshot.epoch).not.toBe(epoch);
    gateway.apply(snapshot);
    expect((await begun).body).toEqual({ revision: 2, applied: { gateways: 1, acked: 1, refused: 0 } });
    expect((await history(running))[0]).toMatchObject({ action: "begin-epoch", who: "environment" });
    await untilPasses(async () => expect((await running.call("GET", "readyz")).body.alarms).toEqual([]));
  });
});

it("of what a gateway says of its problems, counters and errors and of consumers that it lacks, so much is kept as thousands of gateways may say", () => {
  const text = "\u0001".repeat(500);
  const problems = Array.from({ length: 21 }, () => ({ path: text, expected: text, got: text }));
  const refused = readGatewayMessage(JSON.stringify({ type: "refused", epoch: "x", revision: 1, problems }));
  const lacking = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`a${i}-`.padEnd(63, "x"), 1]));
  const held = { epoch: "", position: 0, count: 0, unstored: 1_000, lacking };
  const counts = Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`${i}`.padEnd(128, "€"), 1]));
  const said = [
    { type: "consumers", ...held },
    { ...hello("liar"), consumers: held },
    { type: "status", counters: counts, errors: counts },
  ];
  for (const message of [refused, ...said.map((one) => readGatewayMessage(JSON.stringify(one)))]) {
    expect(message).toBeDefined();
    expect(Buffer.byteLength(JSON.stringify(message))).toBeLessThan(10_000);
  }
  // Others are as they were said.
  const warnings = Array.from({ length: 10 }, () => "w".repeat(200));
  const status = { type: "status", counters: { allowed: 1, refused: 2 }, errors: { access: 3 }, warnings };
  expect(readGatewayMessage(JSON.stringify(status))).toEqual(status);
  for (const more of [[...warnings, "w"], ["w".repeat(201)], ["two\nlines"]]) {
    expect(readGatewayMessage(JSON.stringify({ ...status, warnings: more }))).toBeUndefined();
  }
  const few = problems.slice(0, 1).map(() => ({ path: "/a", expected: "b", got: "c" }));
  expect(readGatewayMessage(JSON.stringify({ type: "refused", epoch: "x", revision: 1, problems: few }))).toMatchObject(
    {
      problems: few,
    },
  );
});

describe("gateways that have left", () => {
  const hello = (gateway: string) =>
    ({ type: "hello", gateway, version: "1", workers: 1, epoch: "e", revision: 1 }) as const;

  it("are forgotten without anybody asking: after an hour, and the first to leave where there are very many", () => {
    let nowMs = 0;
    const fleet = new Fleet(() => nowMs);
    for (let i = 0; i < 1_500; i++) {
      const link = {} as GatewayLink;
      fleet.join(hello(`g${i}`), link);
      fleet.leave(`g${i}`, link);
      nowMs += 1;
    }
    expect(fleet.remembered).toBe(200);
    expect(fleet.list().map(({ id }) => id)).toEqual(Array.from({ length: 200 }, (_, i) => `g${1_300 + i}`));
    nowMs += 3_600_001;
    fleet.join(hello("new"), {} as GatewayLink);
    expect(fleet.remembered).toBe(1);
  });

  it("take few bytes, even if they reported as much as they can: 400 ids", async () => {
    const running = await startControlPlane();
    const text = "x".repeat(1_000);
    const problems = Array.from({ length: 10 }, () => ({ path: text, expected: text, got: text }));
    globalThis.gc?.();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 400; i++) {
      const gateway = await connectGateway(running, `${i}`.padEnd(128, "x"));
      gateway.say({ type: "refused", epoch: "e", revision: 1, problems });
      gateway.say({ type: "status", counters: Object.fromEntries(problems.map((_, j) => [`c${j}`, j])) });
      await gateway.next("snapshot");
      gateway.socket.close();
      await gateway.closed;
    }
    await untilPasses(() => expect(running.app.fleet.links()).toHaveLength(0));
    globalThis.gc?.();
    const mb = (process.memoryUsage().heapUsed - before) / 1e6;
    console.log(`400 gateways that came, told 30 KB each and left: ${mb.toFixed(0)} MB`);
    expect(running.app.fleet.remembered).toBe(200);
    const kept = JSON.stringify(running.app.fleet.list()).length;
    expect(kept).toBeLessThan(200 * 3_000);
  });

  it("may have an id of at most 128 characters, and report few counters, with short names", async () => {
    const running = await startControlPlane();
    expect(await (await connectGateway(running, "x".repeat(129))).closed).toBe(1008);
    const names = await connectGateway(running, "names");
    names.say({ type: "status", counters: { ["x".repeat(129)]: 1 } });
    expect(await names.closed).toBe(1008);
    const many = await connectGateway(running, "many");
    many.say({ type: "status", counters: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`c${i}`, i])) });
    expect(await many.closed).toBe(1008);
  });
});

describe("a gateway whose id a database could take for another one's", () => {
  it.each(["twin ", "twin\ud800"])("is not connected: %j", async (id) => {
    const running = await startControlPlane();
    const liar = await connectGateway(running, id);
    expect(await liar.closed).toBe(1008);
    expect((await running.call("GET", "/gateways")).body.gateways).toEqual([]);
  });
});
