// A database server that ends connections while they are being opened, as a shutdown, a failover or an administrator may: the
// control plane answers meanwhile, and goes on afterwards.

import { expect, it } from "vitest";
import { send } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { PostgresServer } from "../../fixtures/servers/postgres-server.ts";
import { TcpProxy } from "../../fixtures/servers/tcp-proxy.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";
import { serverKinds } from "./database-servers.ts";
import { ServedProcess } from "./served-process.ts";

/** Whether a piece from the server opens a connection, and the message by which the server ends one. */
const messages = {
  PostgreSQL: {
    opens: (piece: Buffer) => piece[0] === "R".charCodeAt(0) && piece.at(-6) === "Z".charCodeAt(0),
    ends: endOfPostgres("57P01"),
  },
  MariaDB: {
    opens: (piece: Buffer) => piece[3] === 2 && piece[4] === 0,
    ends: mariadbPacket(Buffer.concat([Buffer.from([0xff, 0x87, 0x07]), Buffer.from("#70100Connection was killed")])),
  },
};

/** Starts a control plane with a database of this server, which it reaches by a proxy. */
async function behindProxy(server: DatabaseServer): Promise<{ proxy: TcpProxy; url: string }> {
  onFinished(() => server.remove());
  const database = new URL(await server.createDatabase());
  const proxy = await TcpProxy.start(Number(database.port));
  onFinished(() => proxy.refuse());
  database.port = `${proxy.port}`;
  const { url } = await ServedProcess.start({ SLUICE_DATABASE_URL: database.href });
  return { proxy, url };
}

it.each(serverKinds)("%s ends each connection in the message that opens it", async (kind, startServer) => {
  const { proxy, url } = await behindProxy(await startServer({ hasty: true }));
  const put = (name: string) => send(url, "PUT", `/apps/${name}`, { body: {} });

  const { opens, ends } = messages[kind];
  let ended = 0;
  proxy.alter = (piece) => {
    if (!opens(piece)) return piece;
    ended += 1;
    return Buffer.concat([piece, ends]);
  };
  proxy.hangUp();
  await untilPasses(() => expect(ended).toBeGreaterThan(10));
  expect(await put("meanwhile")).toMatchObject({ status: 503, body: { code: "database-unreachable" } });

  proxy.alter = (piece) => piece;
  await untilPasses(async () => expect((await put("again")).status).toBe(201));
});

it.each(["57P05", "25P04"])("PostgreSQL ends connections by a time-out of its own, %s", async (code) => {
  const { proxy, url } = await behindProxy(await PostgresServer.start({ hasty: true }));
  proxy.alter = () => endOfPostgres(code);
  expect(await send(url, "PUT", "/apps/meanwhile", { body: {} })).toMatchObject({
    status: 503,
    body: { code: "database-unreachable" },
  });
});

function endOfPostgres(code: string): Buffer {
  return postgresMessage("E", ["SFATAL", "VFATAL", `C${code}`, "Mterminating connection", ""]);
}

function postgresMessage(type: string, fields: readonly string[]): Buffer {
  const body = Buffer.from(fields.map((field) => `${field}\0`).join(""));
  const head = Buffer.from(`${type}....`);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

function mariadbPacket(body: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUIntLE(body.length, 0, 3);
  return Buffer.concat([head, body]);
}
