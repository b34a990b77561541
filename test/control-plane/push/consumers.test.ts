// Consumers on their way to gateways: what a gateway lacks is sent in parts, each after the answer to the one before, and then each change.

import { setImmediate } from "node:timers/promises";
import type { ConsumersHead } from "@sluice/limiter/protocol/push-messages.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConsumerFeed } from "../../../control-plane/src/push/consumer-feed.ts";
import { Fleet } from "../../../control-plane/src/push/fleet.ts";
import type { GatewayLink } from "../../../control-plane/src/push/gateway-link.ts";
import { mostRemembered, pruneConsumers } from "../../../control-plane/src/storage/consumer-changes.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";
import { type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { connectGateway, type GatewayDouble } from "../../fixtures/servers/gateway-double.ts";
import { PostgresServer } from "../../fixtures/servers/postgres-server.ts";
import { untilPasses } from "../../fixtures/until.ts";

const dayMs = 86_400_000;
type Message = ConsumersHead & { readonly lines: readonly string[] };

const ids = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => `${JSON.stringify({ id: `c${from + i}`, plan: "pro" })}\n`).join("");

const load = ({ call }: Running, text: string, query = "") =>
  call("PUT", `/apps/default/consumers${query}`, { text, type: "application/jsonl" });

const nothing = { epoch: "", position: 0, count: 0, unstored: 0 };

/** Connects a gateway that holds these consumers, and nothing else. */
function connect(running: Running, id: string, held: Partial<typeof nothing> = {}): Promise<GatewayDouble> {
  const consumers = { ...nothing, ...held };
  return connectGateway(running, id, { epoch: "", revision: 0, protocol: 3, consumers });
}

async function next(gateway: GatewayDouble): Promise<Message> {
  return (await gateway.next("consumers" as never)) as Message;
}

function answer(gateway: GatewayDouble, { epoch, to }: Message, lacks: object = {}): void {
  gateway.say({ type: "consumers", epoch, position: to, count: 0, unstored: 0, ...lacks });
}

/** As if as many other consumers had changed as deletions are remembered among. */
const passRemembered = ({ app }: Running) =>
  app.database
    .updateTable("meta")
    .set((row) => ({ consumers_position: row("consumers_position", "+", mostRemembered) }))
    .execute();

/** Takes everything that comes, until there is no more. */
async function takeAll(gateway: GatewayDouble): Promise<Message[]> {
  const taken: Message[] = [];
  for (let more = true; more; ) {
    const message = await next(gateway);
    taken.push(message);
    answer(gateway, message);
    ({ more } = message);
  }
  return taken;
}

describe("a gateway", () => {
  it("that holds none gets all in parts, and then each change alone", async () => {
    const running = await startControlPlane();
    await load(running, ids(0, 2_500));
    await running.call("DELETE", "/apps/default/consumers/c7");
    const gateway = await connect(running, "g1");
    const taken = await takeAll(gateway);
    expect(taken.map(({ from, to, fresh, more }) => [from, to, fresh, more])).toEqual([
      [0, 1_001, true, true],
      [1_001, 2_001, undefined, true],
      [2_001, 2_501, undefined, false],
    ]);
    expect(taken.flatMap(({ lines }) => lines).filter((line) => line.startsWith("+"))).toHaveLength(2_499);
    const overrides = { books: [{ name: "burst", algorithm: "fixed-window", quota: 1, window: "1s" }] };
    await running.call("PUT", "/apps/default/consumers/c1", { body: { plan: "free", overrides } });
    const changed = await next(gateway);
    expect(changed).toMatchObject({ from: 2_501, to: 2_502, more: false });
    expect(changed.lines).toEqual([`+default:c1\tfree\t${JSON.stringify(overrides)}`]);
    // One is on its way until it is answered.
    await running.call("DELETE", "/apps/default/consumers/c2");
    await running.call("DELETE", "/apps/default/consumers/c3");
    answer(gateway, changed);
    expect(await next(gateway)).toMatchObject({ from: 2_502, to: 2_504, lines: ["-default:c2", "-default:c3"] });
  });

  it("that comes back gets what it lacks; one of another history begins anew", async () => {
    const running = await startControlPlane();
    await load(running, ids(0, 3));
    const [{ epoch }] = (await takeAll(await connect(running, "g1"))) as [Message];
    await running.call("DELETE", "/apps/default/consumers/c0");
    expect(await next(await connect(running, "g1", { epoch, position: 2 }))).toMatchObject({
      from: 2,
      to: 4,
      lines: ["+default:c2\tpro", "-default:c0"],
    });
    for (const held of [
      { epoch: "another", position: 2 },
      { epoch, position: 5 },
    ]) {
      const anew = await next(await connect(running, "g2", held));
      expect(anew).toMatchObject({ from: 0, to: 4, fresh: true, lines: ["+default:c1\tpro", "+default:c2\tpro"] });
    }
  });

  it("that was away for longer than deletions are remembered begins anew, and gets to the end", async () => {
    let time = 1_800_000_000_000;
    const running = await startControlPlane({}, { now: () => time });
    await load(running, ids(0, 1_500));
    const [{ epoch }] = (await takeAll(await connect(running, "g1"))) as [Message];
    await running.call("DELETE", "/apps/default/consumers/c0");
    await running.call("PUT", "/apps/default/consumers/c1499", { body: { plan: "free" } });
    time += 31 * dayMs;
    expect(await pruneConsumers(running.app.database, time)).toBe(false);
    const taken = await takeAll(await connect(running, "g1", { epoch, position: 1_500 }));
    expect(taken.map(({ from, to, fresh, more }) => [from, to, fresh, more])).toEqual([
      [0, 1_001, true, true],
      [1_001, 1_502, undefined, false],
    ]);
    const upToDate = await connect(running, "g2", { epoch, position: 1_501 });
    expect(await next(upToDate)).toMatchObject({ from: 1_501, to: 1_502, lines: ["+default:c1499\tfree"] });
  });

  it("that lacks more changes than deletions are remembered among begins anew; one that is connected does not", async () => {
    const running = await startControlPlane();
    await load(running, ids(0, 4));
    const connected = await connect(running, "g1");
    const [{ epoch }] = (await takeAll(connected)) as [Message];
    for (const id of ["c0", "c1"]) {
      await running.call("DELETE", `/apps/default/consumers/${id}`);
      await takeAll(connected);
    }
    await passRemembered(running);
    await running.call("DELETE", "/apps/default/consumers/c2");
    expect(await next(connected)).toMatchObject({ from: 6, to: 7 + mostRemembered, lines: ["-default:c2"] });
    // Only the last one is still remembered.
    const left = await running.app.database.selectFrom("consumer_deletions").select("id").execute();
    expect(left).toEqual([{ id: "c2" }]);
    const away = await next(await connect(running, "g2", { epoch, position: 4 }));
    expect(away).toMatchObject({ from: 0, to: 7 + mostRemembered, fresh: true, lines: ["+default:c3\tpro"] });
    const late = await next(await connect(running, "g3", { epoch, position: 6 }));
    expect([late.fresh, late.lines]).toEqual([undefined, ["-default:c2"]]);
  });

  it("that has begun anew begins again if a deletion since then is not remembered any more", async () => {
    const running = await startControlPlane();
    await load(running, ids(0, 2_500));
    const gateway = await connect(running, "g1");
    const first = await next(gateway);
    expect(first).toMatchObject({ fresh: true, more: true, to: 1_000 });
    await running.call("DELETE", "/apps/default/consumers/c5");
    await passRemembered(running);
    await running.call("DELETE", "/apps/default/consumers/c6");
    answer(gateway, first);
    const taken = await takeAll(gateway);
    expect(taken[0]).toMatchObject({ from: 0, fresh: true });
    const lines = taken.flatMap((message) => message.lines);
    expect(lines.filter((line) => line.startsWith("+"))).toHaveLength(2_498);
    expect(lines).not.toContain("+default:c5\tpro");
    // Deletions from before it began are not needed, however many are forgotten.
    expect(taken.filter(({ fresh }) => fresh)).toHaveLength(1);
  });

  it("of an earlier version, or without memory for them, gets none, and nobody waits for it", async () => {
    const running = await startControlPlane();
    const old = await connectGateway(running, "old", { epoch: "", revision: 0, protocol: 2 });
    const without = await connectGateway(running, "without", { epoch: "", revision: 0, protocol: 3 });
    const beganMs = performance.now();
    const { body } = await running.call("PUT", "/apps/default/consumers/ann?wait=60s", { body: { plan: "pro" } });
    expect(body.applied).toEqual({ gateways: 2, acked: 0 });
    // It does not wait for the minute.
    expect(performance.now() - beganMs).toBeLessThan(50_000);
    for (const { received } of [old, without]) expect(received.map(({ type }) => type)).not.toContain("consumers");
    const { gateways } = (await running.call("GET", "/gateways")).body;
    expect(gateways.map(({ consumers }: { consumers: unknown }) => consumers)).toEqual([null, null]);
  });

  it("is waited for until it has the change, and shown with what it lacks", async () => {
    const running = await startControlPlane();
    const gateway = await connect(running, "g1");
    answer(gateway, await next(gateway));
    const put = running.call("PUT", "/apps/default/consumers/ann?wait=30s", { body: { plan: "pro" } });
    const message = await next(gateway);
    expect((await running.call("GET", "/gateways")).body).toMatchObject({
      consumersPosition: 1,
      gateways: [{ consumers: { position: 0, lag: 1 } }],
    });
    answer(gateway, message, { unstored: 4, lacking: { default: 4 } });
    expect((await put).body.applied).toEqual({ gateways: 1, acked: 0 });
    expect((await running.call("GET", "/gateways")).body.gateways).toMatchObject([
      { alarm: "consumers-full", consumers: { position: 1, lag: 0, unstored: 4 } },
    ]);
    expect((await running.call("GET", "readyz")).body.alarms).toEqual([{ alarm: "consumers-full", gateways: 1 }]);
  });

  it("counts as one that has the change unless it lacks consumers of the app, or does not say whose it lacks", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop", { body: { realm: null } });
    const gateway = await connect(running, "g1");
    answer(gateway, await next(gateway));
    const ackedWith = async (plan: string, lacks: object) => {
      const put = running.call("PUT", "/apps/shop/consumers/ann?wait=30s", { body: { plan } });
      answer(gateway, await next(gateway), lacks);
      return (await put).body.applied.acked;
    };
    expect(await ackedWith("a", { unstored: 3, lacking: { default: 3 } })).toBe(1);
    expect(await ackedWith("b", { unstored: 3, lacking: { default: 2, shop: 1 } })).toBe(0);
    expect(await ackedWith("c", { unstored: 3, lacking: { default: 2 } })).toBe(0);
    expect(await ackedWith("d", { unstored: 3 })).toBe(0);
    expect(await ackedWith("e", {})).toBe(1);
  });

  it("does not make the snapshot of policies grow", async () => {
    const running = await startControlPlane();
    const { bytes } = running.app.publisher.state;
    await load(running, ids(0, 1_000));
    await running.app.publisher.publish();
    expect(running.app.publisher.state.bytes).toBe(bytes);
    expect(running.app.publisher.current.revision).toBe(0);
  });
});

describe("two control planes on one database", () => {
  let server: DatabaseServer;
  beforeAll(async () => {
    server = await PostgresServer.start({ hasty: true });
  });
  afterAll(() => server.remove());

  it("push a change of one to the gateways of both, and wait for both", async () => {
    const common = { SLUICE_DATABASE_URL: await server.createDatabase() };
    const [one, other] = [await startControlPlane(common), await startControlPlane(common)];
    const near = await connect(one, "near");
    const far = await connect(other, "far");
    for (const gateway of [near, far]) answer(gateway, await next(gateway));
    await untilPasses(async () => expect((await one.call("GET", "/gateways")).body.connected).toBe(2));
    const put = one.call("PUT", "/apps/default/consumers/ann?wait=30s", { body: { plan: "pro" } });
    answer(near, await next(near));
    const message = await next(far);
    expect(message.lines).toEqual(["+default:ann\tpro"]);
    answer(far, message);
    expect((await put).body.applied).toEqual({ gateways: 2, acked: 2 });
  });
});

describe("gateways that hold all consumers", () => {
  it("cost nothing when another one joins: three thousand of them, and a thousand that join", async () => {
    const position = { epoch: "e", position: 7, terms: [{ id: "e", revision: 0, position: 0 }] };
    const counted = { counts: new Map(), ...position };
    const feed = new ConsumerFeed({
      fleet: new Fleet(() => 0),
      readPosition: async () => ({ ...position }),
      readChanges: async () => ({ newest: position, changes: [], pruned: 0 }),
      readCounts: async () => counted,
      onSent: () => undefined,
      onError: (error) => expect.unreachable(String(error)),
    });
    await feed.start();
    let sent = 0;
    const join = async (id: string) => {
      const link = {
        sendText: (_: string, onFlushed: () => void) => {
          sent += 1;
          onFlushed();
        },
      } as unknown as GatewayLink;
      const held = { ...position, count: 0, unstored: 0 };
      feed.join(id, link, 3, held);
      await feed.publish();
      await setImmediate();
      feed.answered(link, held);
    };
    for (let i = 0; i < 3_000; i++) await join(`g${i}`);
    expect(sent).toBe(3_000);
    const beganMs = processorMs();
    for (let i = 0; i < 1_000; i++) await join(`late-${i}`);
    const tookMs = processorMs() - beganMs;
    expect(sent).toBe(4_000);
    console.log(`1,000 gateways that join 3,000: ${tookMs.toFixed(0)} ms`);
    expect(tookMs).toBeLessThan(150);
  });
});
