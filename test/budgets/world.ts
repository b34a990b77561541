// A control plane with much stored, before which clients of every kind stand: its database, two hundred gateways, and an app whose
// tokens the clients have.

import { SimulatedGateway } from "../fixtures/clients/simulated-gateway.ts";
import { adminToken, gatewayToken, unlimited } from "../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../fixtures/servers/database-server.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { MariadbServer } from "../fixtures/servers/mariadb-server.ts";
import { makeMemoryDir, removeMemoryDir } from "../fixtures/servers/memory-dir.ts";
import { Plane } from "../fixtures/servers/plane.ts";
import { PostgresServer } from "../fixtures/servers/postgres-server.ts";

export const databases = ["SQLite", "PostgreSQL", "MariaDB"] as const;
export type DatabaseName = (typeof databases)[number];

/** The app of the clients. */
export const app = "shop";
/** Nobody floods it. */
export const quietApp = "quiet";

/** Nobody floods them either: they make the snapshot large. */
const otherApps = Array.from({ length: 9 }, (_, i) => `app-${i}`);
/** An app may have 1,000. */
const policyCount = 900;
const consumerCount = 100_000;
const banCount = 1_000;
const gatewayCount = 200;
const networkCount = 100_000;
const limits = [{ algorithm: "token-bucket", quota: 100, window: "1s" }];

export interface World {
  readonly plane: Plane;
  readonly tokens: Readonly<Record<"viewer" | "editor" | "caller", string>>;
  /** By their ids. */
  readonly gateways: readonly SimulatedGateway[];
  readonly banId: string;
}

/** @param isLimited whether requests are limited as they are by default */
export async function startWorld(
  stack: AsyncDisposableStack,
  database: DatabaseName,
  isLimited: boolean,
): Promise<World> {
  const server = await startServer(database);
  stack.defer(async () => server?.remove());
  const url = await server?.createDatabase();
  const directory = makeMemoryDir("budgets");
  stack.defer(() => removeMemoryDir(directory));
  const env = { SLUICE_DATA_DIR: directory, ...(url === undefined ? {} : { SLUICE_DATABASE_URL: url }) };
  const port = await freePort();
  // To fill it takes more requests at once than anybody may send.
  const filled = await new Plane(port, { ...env, ...unlimited }).start();
  const stored = await fill(filled);
  await filled.kill();
  const limited = Object.fromEntries(Object.keys(unlimited).map((name) => [name, undefined]));
  const plane = await new Plane(port, { ...env, ...(isLimited ? limited : {}) }).start();
  stack.defer(() => plane.remove());
  const gateways = await connectGateways(plane.url);
  stack.defer(() => {
    for (const gateway of gateways) gateway.hangUp();
  });
  return { plane, gateways, ...stored };
}

async function startServer(database: DatabaseName): Promise<DatabaseServer | undefined> {
  if (database === "SQLite") return undefined;
  return database === "PostgreSQL" ? PostgresServer.start() : MariadbServer.start();
}

async function fill(plane: Plane): Promise<Pick<World, "tokens" | "banId">> {
  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await plane.call(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  for (const name of [app, quietApp, ...otherApps]) await call("PUT", `/apps/${name}`, { realm: {} });
  const consumer = (i: number) => `{"id":"consumer-${i}","plan":"pro"}`;
  const network = (i: number) => `10.${i >> 15}.${(i >> 7) & 255}.${(i * 2) & 255}`;
  for (const name of [app, ...otherApps]) {
    await putLines(plane, `/apps/${name}/policies`, "application/jsonl", lines(policyCount, policyLine));
  }
  await putLines(plane, `/apps/${app}/consumers`, "application/jsonl", lines(consumerCount, consumer));
  await putLines(plane, `/apps/${app}/networks/crawlers`, "text/plain", lines(networkCount, network));
  await call("PUT", `/apps/${app}/templates/gold`, { onLimit: { status: 503 } });
  let banId = "";
  for (let i = 0; i < banCount; i++) {
    const body = { policy: "policy-0", key: [`user-${i}`], for: "30d", reason: "It was too fast." };
    banId = (await call("POST", `/apps/${app}/bans`, body)).id;
  }
  const tokens = { viewer: "", editor: "", caller: "" };
  for (const role of ["viewer", "editor", "caller"] as const) {
    tokens[role] = (await call("POST", "/tokens", { name: role, app, role })).token;
  }
  return { tokens, banId };
}

function policyLine(i: number): string {
  const description = `Policy ${i} of many, with a text as long as people write when they explain one. `.repeat(4);
  const match = { paths: [`/path-${i}`, `/path-${i}/*`] };
  return JSON.stringify({ name: `policy-${i}`, description, match, key: ["header:x-user"], limits });
}

function lines(count: number, lineOf: (i: number) => string): string {
  return Array.from({ length: count }, (_, i) => lineOf(i)).join("\n");
}

async function putLines({ url }: Plane, path: string, type: string, body: string): Promise<void> {
  const headers = { authorization: `Bearer ${adminToken}`, "content-type": type };
  const answer = await fetch(`${url}/api/v1${path}`, { method: "PUT", headers, body });
  if (!answer.ok) throw new Error(`PUT ${path}: ${answer.status} ${(await answer.text()).slice(0, 500)}`);
}

async function connectGateways(url: string): Promise<SimulatedGateway[]> {
  const gateways = Array.from(
    { length: gatewayCount },
    (_, i) => new SimulatedGateway({ url, token: gatewayToken, id: `g${`${i}`.padStart(4, "0")}`, protocol: 2 }),
  );
  for (const gateway of gateways) await gateway.connect();
  return gateways;
}
