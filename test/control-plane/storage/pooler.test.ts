// Control planes behind a pooler of PostgreSQL that gives each transaction another connection, and passes no settings of a session on.

import { sql } from "kysely";
import { Client } from "pg";
import { afterAll, beforeAll, expect } from "vitest";
import { DatabaseBusy } from "../../../control-plane/src/storage/engines/database-errors.ts";
import {
  onePerSecond,
  type Running,
  send,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { PgBouncer } from "../../fixtures/servers/pgbouncer.ts";
import { PostgresServer } from "../../fixtures/servers/postgres-server.ts";
import { beside, onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";
import { nameOf } from "./database-servers.ts";
import { ServedProcess } from "./served-process.ts";

const times = { connectMs: 5_000, statementMs: 2_000, lockMs: 1_000 };

let server: PostgresServer;
/** As Debian's package comes, it refuses the startup parameter `options`. The other one drops it. */
let refusing: PgBouncer;
let dropping: PgBouncer;
beforeAll(async () => {
  server = await PostgresServer.start({ hasty: true });
  refusing = await PgBouncer.start(server.port);
  dropping = await PgBouncer.start(server.port, ["ignore_startup_parameters = options"]);
});
afterAll(async () => {
  for (const part of [refusing, dropping, server]) await part?.remove();
});

const poolers: readonly (readonly [string, () => PgBouncer])[] = [
  ["refuses startup options", () => refusing],
  ["drops startup options", () => dropping],
];

const body = onePerSecond;
const put = (url: string, name: string) => send(url, "PUT", `/apps/default/policies/${name}`, { body });

function plane(SLUICE_DATABASE_URL: string): Promise<Running> {
  return startControlPlane({ SLUICE_DATABASE_URL }, { databaseTimes: times });
}

/** Returns how many connections of a database wait for a lock. */
async function waitingIn(database: string): Promise<number> {
  const text = `select count(*) as count from pg_stat_activity where datname = '${database}' and wait_event_type = 'Lock'`;
  return Number((await server.query(text, "postgres"))[0]?.["count"]);
}

/** Makes the pooler open as many connections to a database, so that it has a choice from the first transaction on. */
async function openConnections(connectionString: string, count: number): Promise<void> {
  const clients = Array.from({ length: count }, () => new Client({ connectionString }));
  for (const client of clients) {
    await client.connect();
    await client.query("begin");
  }
  for (const client of clients) {
    await client.query("rollback");
    await client.end();
  }
}

/** A transaction of somebody else, who holds a lock until the test ends it. */
async function holding(database: string, statement: string): Promise<() => Promise<unknown>> {
  const client = new Client({ host: "127.0.0.1", port: server.port, user: "postgres", database });
  await client.connect();
  onFinished(() => client.end());
  await client.query(`begin; ${statement}`);
  return () => client.query("rollback");
}

beside.each(poolers)(
  "a pooler that %s: a control plane that freezes in the middle of a change holds up the others for half a minute",
  async (_, pooler) => {
    const url = await server.createDatabase();
    const database = nameOf(url);
    const SLUICE_DATABASE_URL = pooler().urlOf(url);
    const [frozen, other] = [
      await ServedProcess.start({ SLUICE_DATABASE_URL }),
      await ServedProcess.start({ SLUICE_DATABASE_URL }),
    ];
    // It has the row of all writers, and waits for the table, when it freezes.
    const letGo = await holding(database, "lock table revisions in exclusive mode");
    const change = put(frozen.url, "of-the-frozen");
    await untilPasses(async () => expect(await waitingIn(database)).toBe(1));
    frozen.freeze();
    onFinished(() => frozen.thaw());
    await letGo();
    expect((await put(other.url, "books")).body).toMatchObject({ status: 503, code: "database-busy" });
    expect(await waitingIn(database)).toBe(0);
    await untilPasses(async () => expect((await put(other.url, "books")).status).toBeLessThan(300));
    frozen.thaw();
    expect((await change).body).toMatchObject({ status: 503, code: "database-unreachable" });
    const { body } = await send(other.url, "GET", "/revisions", {});
    expect(body.revisions).toMatchObject([{ n: 1, policy: "books" }]);
    expect((await put(frozen.url, "again")).body.revision).toBe(2);
  },
);

beside.each(poolers)(
  "a pooler that %s: a single statement that waits for too long is cancelled, and leaves no connection that waits",
  async (_, pooler) => {
    const url = await server.createDatabase();
    const { app } = await plane(pooler().urlOf(url));
    await holding(nameOf(url), "lock table members in access exclusive mode");
    const write = app.database.updateTable("members").set({ version: 1 }).execute();
    await expect(write).rejects.toThrow(DatabaseBusy);
    await expect(app.database.selectFrom("members").selectAll().execute()).rejects.toThrow(DatabaseBusy);
    expect(await waitingIn(nameOf(url))).toBe(0);
    await expect(sql`select pg_sleep(60)`.execute(app.database)).rejects.toThrow(DatabaseBusy);
  },
);

beside.each(poolers)(
  "a pooler that %s: changes are isolated as elsewhere, whatever the server's default is",
  async (_, pooler) => {
    const url = await server.createDatabase();
    await server.query(`alter database ${nameOf(url)} set default_transaction_isolation = 'serializable'`, "postgres");
    const { app } = await plane(pooler().urlOf(url));
    const isolation = sql<{ transaction_isolation: string }>`show transaction_isolation`;
    const { rows } = await app.database.transaction().execute((transaction) => isolation.execute(transaction));
    expect([...rows, ...(await isolation.execute(app.database)).rows]).toEqual([
      { transaction_isolation: "read committed" },
      { transaction_isolation: "read committed" },
    ]);
  },
);

beside.each(poolers)(
  "a pooler that %s: several that start at once migrate the database once, and leave no lock behind",
  async (_, pooler) => {
    const url = await server.createDatabase();
    await openConnections(pooler().urlOf(url), 3);
    const planes = await Promise.all([1, 2, 3].map(() => plane(pooler().urlOf(url))));
    for (const [i, one] of planes.entries()) expect((await put(one.url, `p${i}`)).status).toBe(201);
    const locks = `select count(*) as count from pg_locks l join pg_database d on d.oid = l.database
      where l.locktype = 'advisory' and d.datname = '${nameOf(url)}'`;
    expect(Number((await server.query(locks, "postgres"))[0]?.["count"])).toBe(0);
  },
);

beside.each(poolers)(
  "a pooler that %s: a change by one control plane reaches the gateways of another",
  async (_, pooler) => {
    const url = pooler().urlOf(await server.createDatabase());
    const [one, other] = [await plane(url), await plane(url)];
    const gateway = await connectGateway(other, "there");
    gateway.apply(await gateway.next("snapshot"));
    expect((await put(one.url, "books")).status).toBe(201);
    expect((await gateway.next("snapshot")).revision).toBe(1);
  },
);

beside.each(poolers)(
  "a pooler that %s: a statement has no transaction of its own if the server has the bounds anyway",
  async (_, pooler) => {
    const isAlone = sql<{ alone: boolean }>`select transaction_timestamp() = statement_timestamp() as alone`;
    const found: unknown[] = [];
    for (const hasBounds of [false, true]) {
      const url = await server.createDatabase();
      const bounds = {
        statement_timeout: "2s",
        lock_timeout: "1s",
        idle_in_transaction_session_timeout: "6s",
        default_transaction_isolation: "read committed",
      };
      for (const [name, value] of hasBounds ? Object.entries(bounds) : []) {
        await server.query(`alter database ${nameOf(url)} set ${name} = '${value}'`, "postgres");
      }
      const { app } = await plane(pooler().urlOf(url));
      found.push(...(await isAlone.execute(app.database)).rows);
    }
    expect(found).toEqual([{ alone: false }, { alone: true }]);
  },
);
