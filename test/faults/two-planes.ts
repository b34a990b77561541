// Two control planes on one database server, each with two real gateways, which know both.

import { type Answer, ask } from "../fixtures/clients/requests.ts";
import { adminToken } from "../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../fixtures/servers/database-server.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import type { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { MariadbServer } from "../fixtures/servers/mariadb-server.ts";
import { idFor, Plane, startGatewayOf } from "../fixtures/servers/plane.ts";
import { PostgresServer } from "../fixtures/servers/postgres-server.ts";
import { Program } from "../fixtures/servers/program.ts";

import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { until } from "../fixtures/until.ts";
import { Namespace } from "./namespace.ts";
import { deadlineMs, type Observed, startRedis } from "./scenario.ts";

/** What is stored must be on the disk: some faults kill the server. */
export const databases = {
  PostgreSQL: () => PostgresServer.start(),
  MariaDB: () => MariadbServer.start(),
} as const;

export type DatabaseKind = keyof typeof databases;

const gatewaysOfEach = 2;
const demoUpstream = new URL("../../launch/demo-upstream.ts", import.meta.url).pathname;

/** A control plane, and what cuts its way to the database. */
export interface PlaneOfTwo {
  readonly plane: Plane;
  /** Drops packets to and from the database. Only for control planes in namespaces. */
  cut(): Promise<void>;
  heal(): Promise<void>;
}

export class TwoPlanes implements Observed {
  readonly server: DatabaseServer;
  readonly both: readonly [PlaneOfTwo, PlaneOfTwo];
  /** The first two begin at the first control plane, the others at the second. */
  readonly gateways: readonly LoneGateway[];
  readonly #database: string;
  /** The control plane that `api` and `put` ask. */
  asked: Plane;

  private constructor(
    server: DatabaseServer,
    database: string,
    both: readonly [PlaneOfTwo, PlaneOfTwo],
    gateways: readonly LoneGateway[],
  ) {
    this.server = server;
    this.#database = database;
    this.both = both;
    this.gateways = gateways;
    this.asked = both[1].plane;
  }

  /**
   * @param stack gets a callback for everything that is started
   * @param inNamespaces each control plane is in a network namespace of its own, from which it reaches the database
   */
  static async start(stack: AsyncDisposableStack, kind: DatabaseKind, inNamespaces = false): Promise<TwoPlanes> {
    const server = await databases[kind]();
    stack.defer(() => server.remove());
    const databaseUrl = await server.createDatabase();
    const redis = await startRedis(stack);
    const [upstreamPort, ...ports] = (await freePorts(3)) as [number, number, number];
    const upstream = await Program.start({
      command: process.execPath,
      args: [demoUpstream],
      env: { SLUICE_UPSTREAM_PORT: `${upstreamPort}` },
      readyWhen: () =>
        ask(`http://127.0.0.1:${upstreamPort}`).then(
          () => true,
          () => false,
        ),
    });
    stack.defer(() => upstream.stop());
    const both: PlaneOfTwo[] = [];
    // One after the other: the first makes the tables.
    for (const port of ports)
      both.push(await startPlane(stack, port, { databaseUrl, redisUrl: redis.url, inNamespaces }));
    const urls = both.map(({ plane }) => plane.url);
    const starting = urls.flatMap((first, i) =>
      Array.from({ length: gatewaysOfEach }, (_, j) =>
        startGatewayOf(idFor(first, urls, `g${i}${j}`), urls, {
          SLUICE_REDIS_URL: redis.url,
          SLUICE_REDIS_DEADLINE_MS: `${deadlineMs}`,
          SLUICE_UPSTREAM: `http://127.0.0.1:${upstreamPort}`,
        }),
      ),
    );
    for (const one of await Promise.allSettled(starting)) {
      if (one.status === "fulfilled") stack.defer(() => one.value.stop());
    }
    const gateways = await Promise.all(starting);
    const database = new URL(databaseUrl).pathname.slice(1);
    const planes = new TwoPlanes(server, database, both as [PlaneOfTwo, PlaneOfTwo], gateways);
    await until("each control plane has its gateways, and both know of all", async () => {
      const here = await Promise.all(both.map(({ plane }) => plane.gatewaysHere()));
      return here.every((count) => count === gatewaysOfEach) && (await planes.knowOfAll());
    });
    return planes;
  }

  /** Returns whether both control planes count all gateways. */
  async knowOfAll(): Promise<boolean> {
    const known = await Promise.all(this.both.map(({ plane }) => plane.call("GET", "/gateways")));
    return known.every(({ body }) => body.connected === this.gateways.length);
  }

  api(method: string, path: string, body?: unknown): Promise<Answer> {
    return ask(`${this.asked.url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${adminToken}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  async put(document: { name: string } & Record<string, unknown>): Promise<void> {
    const { status, body } = await this.api("PUT", `/apps/default/policies/${document.name}?wait=30s`, document);
    const applied = JSON.parse(body).applied;
    if (status > 201 || applied?.acked !== this.gateways.length) {
      throw new Error(`the policy was not applied by all: ${status} ${body}`);
    }
  }

  async untilConnected(): Promise<void> {
    await until("every gateway is connected, and both know of all", async () => {
      for (const { privateUrl } of this.gateways) {
        if (JSON.parse((await ask(`${privateUrl}/sluice/healthz`)).body).connected !== true) return false;
      }
      return this.knowOfAll();
    });
  }

  /** @returns the limits that all gateways tell at a path; 0: none */
  async limitsAt(path: string): Promise<number[]> {
    const answers = await Promise.all(this.gateways.map(({ url }) => ask(`${url}${path}`)));
    return answers.map(({ headers }) => Number(headers["x-ratelimit-limit"] ?? 0));
  }

  /** @returns rows as the database server has them */
  query(text: string): Promise<Record<string, unknown>[]> {
    return this.server.query(text, this.#database);
  }
}

interface PlaneSurroundings {
  readonly databaseUrl: string;
  readonly redisUrl: string;
  readonly inNamespaces: boolean;
}

async function startPlane(
  stack: AsyncDisposableStack,
  port: number,
  { databaseUrl, redisUrl, inNamespaces }: PlaneSurroundings,
): Promise<PlaneOfTwo> {
  const start = async (plane: Plane) => {
    stack.defer(() => plane.remove());
    await plane.start();
    return plane;
  };
  if (!inNamespaces) {
    const env = { SLUICE_DATABASE_URL: databaseUrl, SLUICE_REDIS_URL: redisUrl };
    const nothing = async () => {
      throw new Error("this control plane is not in a namespace of its own");
    };
    return { plane: await start(new Plane(port, env)), cut: nothing, heal: nothing };
  }
  const namespace = Namespace.create();
  stack.defer(() => namespace.remove());
  // The servers let in only who comes from their own machine.
  const reachable = async (url: string) => {
    const { host, port: target } = new URL(url);
    const proxy = await TcpProxy.start(Number(target), namespace.hostAddress);
    stack.defer(() => proxy.refuse());
    return { url: url.replace(host, `${namespace.hostAddress}:${proxy.port}`), port: proxy.port };
  };
  const database = await reachable(databaseUrl);
  const redis = await reachable(redisUrl);
  const env = { SLUICE_DATABASE_URL: database.url, SLUICE_REDIS_URL: redis.url };
  const plane = await start(new Plane(port, env, namespace));
  return { plane, cut: () => namespace.drop(database.port), heal: () => namespace.pass() };
}
