// Connections to a database server that hangs, breaks off or keeps others waiting. The times after which the control plane gives up
// are shorter here than those of operators.

import { afterAll, beforeAll, expect } from "vitest";
import { onePerSecond, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { beside, onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";
import { serverKinds } from "./database-servers.ts";

const times = { connectMs: 2_000, statementMs: 2_000, lockMs: 1_000 };

/** For the tests that do not stop them. */
const running = new Map<string, DatabaseServer>();
beforeAll(async () => {
  for (const [kind, startServer] of serverKinds) running.set(kind, await startServer({ hasty: true }));
});
afterAll(async () => {
  for (const server of running.values()) await server.remove();
});

const newDatabase = (kind: string) => (running.get(kind) as DatabaseServer).createDatabase();

async function plane(url: string, databaseTimes = times): Promise<Running & { log: string[] }> {
  const log: string[] = [];
  const surroundings = { databaseTimes, logTo: { write: (line: string) => void log.push(line) } };
  const running = await startControlPlane({ SLUICE_DATABASE_URL: url, SLUICE_LOG_LEVEL: "warn" }, surroundings);
  return { ...running, log };
}

const put = ({ call }: Running, name = "books") =>
  call("PUT", `/apps/default/policies/${name}`, { body: onePerSecond });

beside.each(serverKinds)(
  "%s hangs: every request is answered meanwhile, gateways stay, and all goes on when it goes on",
  async (_, startServer) => {
    const server = await startServer();
    onFinished(() => server.remove());
    const one = await plane(await server.createDatabase());
    await put(one);
    const gateway = await connectGateway(one, "steady");
    gateway.apply(await gateway.next("snapshot"));

    server.freeze();
    onFinished(() => server.thaw());
    for (let round = 0; round < 2; round++) {
      // More than the pool has connections.
      const asked = Array.from({ length: 15 }, (__, i) => [put(one, `p${i}`), one.call("GET", "/apps")]).flat();
      expect((await one.call("GET", "healthz")).status).toBe(200);
      for (const { body } of await Promise.all(asked)) {
        expect([503, ["database-unreachable", "database-busy"].includes(body.code)]).toEqual([body.status, true]);
      }
    }
    expect((await one.call("GET", "readyz")).status).toBe(503);
    expect(one.log.filter((line) => line.includes("policies in force stay in force"))).toHaveLength(1);
    expect(one.log.filter((line) => line.includes("changes are stored again"))).toEqual([]);
    expect(gateway.socket.readyState).toBe(gateway.socket.OPEN);

    server.thaw();
    await untilPasses(async () => expect((await put(one, "again")).status).toBe(201));
    // No connection of the pool was lost.
    await untilPasses(async () => {
      const all = await Promise.all(Array.from({ length: 20 }, (__, i) => put(one, `q${i}`)));
      expect(all.filter(({ status }) => status >= 300)).toEqual([]);
    });
    // The database is probed twice a second at most.
    await untilPasses(async () => {
      expect((await one.call("GET", "readyz")).body).toMatchObject({ status: "ok", storage: "ok" });
    });
  },
);

beside.each(serverKinds)(
  "%s does not wait for a control plane that stopped in the middle of a change, and its change is not stored",
  async (kind) => {
    const url = await newDatabase(kind);
    const [stopped, other] = [await plane(url), await plane(url)];
    let holds = () => {};
    const held = new Promise<void>((resolve) => {
      holds = resolve;
    });
    let goOn = () => {};
    const change = stopped.app.database.transaction().execute(async (transaction) => {
      await transaction.updateTable("meta").set({ revision: 1_000 }).where("id", "=", 1).execute();
      holds();
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
    });
    const outcome = change.then(
      () => "stored",
      () => "not stored",
    );
    await held;
    expect((await put(other)).body).toMatchObject({ status: 503, code: "database-busy" });
    await untilPasses(async () => expect((await put(other)).status).toBeLessThan(300));
    goOn();
    expect(await outcome).toBe("not stored");
    expect((await other.call("GET", "/revisions")).body.revisions).toMatchObject([{ n: 1 }]);
    expect((await put(stopped, "more")).body.revision).toBe(2);
  },
);

beside.each(serverKinds)("%s: changes that wait for another control plane keep nobody from reading", async (kind) => {
  const url = await newDatabase(kind);
  const patient = { connectMs: 20_000, statementMs: 20_000, lockMs: 20_000 };
  const [holder, waiting] = [await plane(url, patient), await plane(url, patient)];
  const isHeld = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const held = holder.app.database.transaction().execute(async (transaction) => {
    await transaction.updateTable("meta").set({ revision: 0 }).where("id", "=", 1).execute();
    isHeld.resolve();
    await goOn.promise;
  });
  await isHeld.promise;
  // More than the pool has connections.
  const changes = Array.from({ length: 15 }, (_, i) => put(waiting, `p${i}`));
  const read = waiting.call("GET", "/apps").then(({ status }) => `read ${status}`);
  const change = Promise.race(changes).then(({ status }) => `change ${status}`);
  expect(await Promise.race([read, change])).toBe("read 200");
  goOn.resolve();
  await held.catch(() => undefined);
  await Promise.all(changes);
});

beside.each(serverKinds)(
  "%s: a transaction with a failed statement that nobody noticed is never taken for stored",
  async (kind) => {
    const { app } = await plane(await newDatabase(kind));
    const app1 = { name: "one", created_at: 0, revision: 0, realm: null, bounds: null };
    const change = app.database.transaction().execute(async (transaction) => {
      await transaction.insertInto("apps").values(app1).execute();
      await transaction
        .insertInto("apps")
        .values(app1)
        .execute()
        .catch(() => {});
    });
    const rejects = await change.then(
      () => false,
      () => true,
    );
    const stored = await app.database.selectFrom("apps").select("name").where("name", "=", "one").execute();
    // MySQL goes on after a failed statement, PostgreSQL rolls everything back.
    expect([rejects, stored.length]).toEqual(kind === "MariaDB" ? [false, 1] : [true, 0]);
  },
);

beside.each(serverKinds)(
  "%s: control planes that announce many gateways at once do not get in each other's way",
  async (kind) => {
    const url = await newDatabase(kind);
    const planes = [await plane(url), await plane(url), await plane(url)];
    const each = 40;
    for (let round = 0; round < 3; round++) {
      const gateways = await Promise.all(
        planes.flatMap((one, i) =>
          Array.from({ length: each }, (__, n) => connectGateway({ url: one.url }, `gateway-${n}-of-${i}-in-${round}`)),
        ),
      );
      await untilPasses(async () => {
        for (const one of planes)
          expect((await one.call("GET", "/gateways")).body.connected).toBe(planes.length * each);
      });
      for (const { socket } of gateways) socket.terminate();
      await untilPasses(async () => {
        for (const one of planes) expect((await one.call("GET", "/gateways")).body.connected).toBe(0);
      });
    }
    for (const { log } of planes) expect(log.filter((line) => line.includes("cannot exchange"))).toEqual([]);
  },
);
