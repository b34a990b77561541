// Database servers on a disk without a free byte: the control plane says so, serves what is stored, and goes on by itself.

import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { onePerSecond, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { PostgresServer } from "../../fixtures/servers/postgres-server.ts";
import { SmallDisk } from "../../fixtures/servers/small-disk.ts";
import { beside, onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";
import { nameOf, serverKinds } from "./database-servers.ts";

const diskKilobytes = 100_000;
const description = "x".repeat(900);

interface Site<Server> {
  readonly disk: SmallDisk;
  readonly server: Server;
  readonly url: string;
  readonly plane: Running;
  readonly log: string[];
}

async function site<Server extends DatabaseServer>(
  startServer: (options: { disk: SmallDisk }) => Promise<Server>,
): Promise<Site<Server>> {
  const disk = await SmallDisk.make(diskKilobytes);
  onFinished(() => disk.remove());
  const server = await startServer({ disk });
  onFinished(() => server.remove());
  const log: string[] = [];
  const url = await server.createDatabase();
  const surroundings = { logTo: { write: (line: string) => void log.push(line) } };
  const plane = await startControlPlane({ SLUICE_DATABASE_URL: url, SLUICE_LOG_LEVEL: "warn" }, surroundings);
  return { disk, server, url, plane, log };
}

const put = ({ call }: Running, name: string) =>
  call("PUT", `/apps/default/policies/${name}`, { body: { ...onePerSecond, description } });

async function storedNames({ call }: Running): Promise<string[]> {
  const { policies } = (await call("GET", "/apps/default/policies?limit=1000")).body;
  return policies.map(({ name }: { name: string }) => name);
}

beside.each(serverKinds)(
  "%s on a full disk: changes are refused and change nothing, the rest is served, and changes are stored again when there is room",
  async (_, startServer) => {
    const { disk, plane, log } = await site(startServer);
    disk.fill();
    const stored: string[] = [];
    let refused = 0;
    for (let i = 0; refused < 3; i++) {
      const { status, body } = await put(plane, `p${i}`);
      if (status === 201) stored.push(`p${i}`);
      else {
        expect([status, body.code]).toEqual([507, "storage-full"]);
        refused += 1;
      }
    }
    expect((await storedNames(plane)).sort()).toEqual(stored.sort());
    const gateway = await connectGateway(plane, "new");
    expect((await gateway.next("snapshot")).policies).toHaveLength(stored.length);
    expect((await plane.call("GET", "readyz")).body).toMatchObject({ status: "ok", storage: "full" });
    // Small changes of the control plane itself may still find room: they say nothing about others.
    // It looks for room several times. A busy machine only looks less often.
    await sleep(2_500);
    expect(log.filter((line) => line.includes("the disk of the database is full"))).toHaveLength(1);
    expect((await plane.call("GET", "readyz")).body.storage).toBe("full");

    disk.makeRoom();
    await untilPasses(async () => expect((await plane.call("GET", "readyz")).body.storage).toBe("ok"));
    expect((await put(plane, "again")).status).toBe(201);
    const numbers = (await plane.call("GET", "/revisions?limit=1000")).body.revisions.map(({ n }: { n: number }) => n);
    expect(numbers).toEqual(Array.from({ length: stored.length + 1 }, (__, i) => stored.length + 1 - i));
  },
);

beside(
  "PostgreSQL that crashes for lack of room for its log loses nothing that was answered, and is used again when it runs again",
  async () => {
    const { disk, server, url, plane } = await site((options) => PostgresServer.start(options));
    const stored = ["before"];
    expect((await put(plane, "before")).status).toBe(201);
    // Room for rows, and none for another file of the log, which is 1 MB.
    disk.fill(600_000);
    await server.query("select pg_switch_wal()", nameOf(url));
    const unanswered: string[] = [];
    for (let i = 0; server.isRunning && i < 500; i++) {
      const { status, body } = await put(plane, `p${i}`);
      if (status === 201) stored.push(`p${i}`);
      else {
        expect([503, 507]).toContain(status);
        // What is answered with 507 is not stored, whatever happened.
        if (status === 503 && /was stored whole, or nothing was/.test(body.detail)) unanswered.push(`p${i}`);
        await sleep(50);
      }
    }
    expect(server.isRunning).toBe(false);
    expect(server.output).toMatch(/PANIC:.*No space left on device/);
    expect((await put(plane, "meanwhile")).body).toMatchObject({ status: 503, code: "database-unreachable" });
    expect((await plane.call("GET", "healthz")).status).toBe(200);

    disk.makeRoom();
    // As its service manager would.
    await server.stop();
    await server.start();
    await untilPasses(async () => expect((await put(plane, "again")).status).toBe(201));
    const names = await storedNames(plane);
    expect(stored.filter((name) => !names.includes(name))).toEqual([]);
    expect(names.filter((name) => ![...stored, ...unanswered, "again"].includes(name))).toEqual([]);
  },
);
