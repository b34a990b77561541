// Orders about counters reach the gateways of all control planes that share a database.

import { setTimeout as sleep } from "node:timers/promises";
import type { KyselyPlugin, PluginTransformQueryArgs, QueryResult, RootOperationNode, UnknownRow } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readConfiguration } from "../../../control-plane/src/configuration.ts";
import { Fleet } from "../../../control-plane/src/push/fleet.ts";
import { PassedOrders } from "../../../control-plane/src/push/passed-orders.ts";
import { openDatabase } from "../../../control-plane/src/storage/database.ts";
import { passOrder } from "../../../control-plane/src/storage/peers.ts";
import type { CounterOrder } from "../../../limiter/src/protocol/push-messages.ts";
import { type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { connectGateway, type GatewayDouble } from "../../fixtures/servers/gateway-double.ts";
import { MariadbServer } from "../../fixtures/servers/mariadb-server.ts";
import { PostgresServer } from "../../fixtures/servers/postgres-server.ts";
import { beside, onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";
import { ServedProcess } from "../storage/served-process.ts";

const kinds = [
  ["MariaDB", () => MariadbServer.start({ hasty: true })],
  ["PostgreSQL", () => PostgresServer.start({ hasty: true })],
] as const;

const policy = {
  key: ["header:x-user"],
  limits: [{ name: "burst", algorithm: "fixed-window", quota: 10, window: "1h" }],
};
const counter = "/apps/default/counters";

/** Answers the next order with `remaining`. @returns the order */
async function answer(gateway: GatewayDouble, remaining: number): Promise<CounterOrder> {
  const { type: _, id, ...order } = await gateway.next("counter");
  gateway.say({ type: "counter", id, limits: [{ name: "burst", capacity: 10, remaining, resetAfterUs: 1_000_000 }] });
  return order;
}

/** Keeps back the first result of the database. */
class LateResult implements KyselyPlugin {
  release = () => {};
  readonly came: Promise<void>;
  #come = () => {};
  #isFirst = true;

  constructor() {
    this.came = new Promise((resolve) => {
      this.#come = resolve;
    });
  }

  transformQuery({ node }: PluginTransformQueryArgs): RootOperationNode {
    return node;
  }

  async transformResult({ result }: { result: QueryResult<UnknownRow> }): Promise<QueryResult<UnknownRow>> {
    if (!this.#isFirst) return result;
    this.#isFirst = false;
    this.#come();
    await new Promise<void>((resolve) => {
      this.release = resolve;
    });
    return result;
  }
}

describe.each(kinds)("orders about counters on %s", (_, startServer) => {
  let server: DatabaseServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.remove());

  /** Two control planes with a gateway each, which both know. */
  async function site(): Promise<{
    one: Running;
    other: Running;
    here: GatewayDouble;
    there: GatewayDouble;
    url: string;
  }> {
    const url = await server.createDatabase();
    const one = await startControlPlane({ SLUICE_DATABASE_URL: url });
    const other = await startControlPlane({ SLUICE_DATABASE_URL: url });
    await one.call("PUT", "/apps/default/policies/books", { body: policy });
    const here = await connectGateway(one, "here");
    const there = await connectGateway(other, "there");
    await untilPasses(async () => expect((await one.call("GET", "/gateways")).body.connected).toBe(2));
    return { one, other, here, there, url };
  }

  const placed = (url: string) => server.query("select * from counter_orders", new URL(url).pathname.slice(1));

  beside("reach all gateways before anybody gives them up, and the answer has what each of them counts", async () => {
    const { one, here, there, url } = await site();
    for (const [method, what, options] of [
      ["GET", { do: "read" }, {}],
      ["DELETE", { do: "forget" }, {}],
      ["POST", { do: "top-up", units: 3 }, { body: { policy: "books", key: ["ann"], units: 3 } }],
    ] as const) {
      const path = method === "POST" ? counter : `${counter}?policy=books&key=ann`;
      const asked = one.call(method, path, options);
      const orders = await Promise.all([answer(here, 7), answer(there, 4)]);
      for (const order of orders) expect(order).toEqual({ app: "default", policy: "books", key: ["ann"], ...what });
      expect((await asked).body.gateways).toMatchObject([
        { id: "here", state: "done", limits: [{ name: "burst", remaining: 7 }] },
        { id: "there", state: "done", limits: [{ name: "burst", remaining: 4 }] },
      ]);
    }
    expect(there.received.filter(({ type }) => type === "counter")).toHaveLength(3);
    expect(await placed(url)).toEqual([]);
  });

  beside("are carried out once each, however many come at once", async () => {
    const { one, other, here, there, url } = await site();
    const count = 20;
    const asked = Array.from({ length: count }, (_, i) => {
      const body = { policy: "books", key: [`user-${i}`], units: 1 };
      return (i % 2 === 0 ? one : other).call("POST", counter, { body });
    });
    for (const gateway of [here, there]) for (let i = 0; i < count; i++) void answer(gateway, i);
    for (const { status, body } of await Promise.all(asked)) {
      expect([status, body.gateways.map(({ state }: { state: string }) => state)]).toEqual([200, ["done", "done"]]);
    }
    for (const { received } of [here, there]) {
      const keys = received.flatMap((message) => (message.type === "counter" ? message.key : []));
      expect(keys.sort()).toEqual(Array.from({ length: count }, (_, i) => `user-${i}`).sort());
    }
    expect(await placed(url)).toEqual([]);
  });

  beside(
    "do not wait for ever for a control plane that was killed: its gateways are silent, and later no longer counted",
    async () => {
      const url = await server.createDatabase();
      const one = await startControlPlane({ SLUICE_DATABASE_URL: url });
      const killed = await ServedProcess.start({ SLUICE_DATABASE_URL: url });
      await one.call("PUT", "/apps/default/policies/books", { body: policy });
      const here = await connectGateway(one, "here");
      await connectGateway({ url: killed.url }, "there");
      await untilPasses(async () => expect((await one.call("GET", "/gateways")).body.connected).toBe(2));
      await killed.stop("SIGKILL");
      const asked = one.call("GET", `${counter}?policy=books&key=ann`);
      await answer(here, 7);
      expect((await asked).body.gateways).toMatchObject([
        { id: "here", state: "done" },
        { id: "there", state: "silent" },
      ]);
      expect(await placed(url)).toEqual([]);
      // Its gateways had ten seconds to go to another control plane.
      await untilPasses(async () => expect((await one.call("GET", "/gateways")).body.connected).toBe(1));
      const again = one.call("GET", `${counter}?policy=books&key=ann`);
      await answer(here, 7);
      expect((await again).body.gateways).toMatchObject([{ id: "here", state: "done" }]);
    },
  );

  it("are carried out once, also if the database is late with a list of them", async () => {
    const { database } = await openDatabase(
      readConfiguration({ SLUICE_DATABASE_URL: await server.createDatabase() }).database,
    );
    onFinished(() => database.destroy());
    const late = new LateResult();
    const sent: unknown[] = [];
    const orders = new PassedOrders({
      database: database.withPlugin(late),
      fleet: new Fleet(Date.now),
      // No gateway answers, so the orders stay listed.
      here: { send: ({ key }) => new Promise(() => sent.push(...key)) },
      id: "own",
      onError: (error) => sent.push(error),
    });
    const pass = (id: string) => {
      const document = JSON.stringify({ app: "default", policy: "books", key: [id], do: "top-up", units: 3 });
      return passOrder(database, "other", ["own"], { id, document });
    };
    await pass("first");
    const older = orders.carryOut();
    await late.came;
    await pass("second");
    const newer = orders.carryOut();
    // The newer one may wait for the older one, and then it does so for longer than this.
    await Promise.race([newer, sleep(300)]);
    late.release();
    await Promise.all([older, newer]);
    await orders.carryOut();
    expect(sent).toEqual(["first", "second"]);
  });
});
