// A gateway with Redis behind one network and its callers behind another, either of which can be away, slow or full of rubbish.

import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { nginxProcesses, System } from "../fixtures/servers/system.ts";
import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { callerToken } from "./caller-tokens.ts";
import type { rows } from "./outage-rows.ts";

export const storeFailures = ["local", "allow", "deny"] as const;
/** A client that asks through the slow network gives up much earlier. */
const slowMs = 4_000;

interface Outage {
  readonly begin: () => Promise<void>;
  readonly end: () => Promise<void>;
}

export class OutageWorld {
  token = "";
  readonly system: System;
  readonly #redis: RedisServer;
  readonly #toRedis: TcpProxy;
  /** Between callers and the gateway. */
  readonly #network: TcpProxy;

  private constructor(system: System, redis: RedisServer, toRedis: TcpProxy, network: TcpProxy) {
    this.system = system;
    this.#redis = redis;
    this.#toRedis = toRedis;
    this.#network = network;
  }

  static async start(): Promise<OutageWorld> {
    const redis = new RedisServer(await freePort());
    await redis.start();
    const toRedis = await TcpProxy.start(redis.port);
    const env = { SLUICE_REDIS_URL: toRedis.url, SLUICE_REDIS_DEADLINE_MS: "400" };
    const system = await System.start({ env });
    const network = await TcpProxy.start(Number(new URL(system.gateway.privateUrl).port));
    const world = new OutageWorld(system, redis, toRedis, network);
    world.token = await callerToken(system, "default");
    for (const onStoreFailure of storeFailures) {
      const document = { scope: "cluster", match: { paths: ["/elsewhere"] }, key: ["header:x-user"], onStoreFailure };
      const many = { algorithm: "fixed-window", quota: 1_000_000, window: "366d" };
      await system.put({ ...document, name: onStoreFailure, limits: [many] });
      const slots = { algorithm: "concurrency", quota: 1_000, ttl: "5m" };
      await system.put({ ...document, name: `slots-${onStoreFailure}`, limits: [slots] });
    }
    // Callers wait at this one while nginx reloads.
    const line = { algorithm: "token-bucket", quota: 1, window: "3s", burst: 1 };
    await system.put({ name: "line", match: { paths: ["/elsewhere"] }, key: ["header:x-user"], limits: [line] });
    return world;
  }

  /** Where callers ask: through the network, or without it. */
  urlFor(row: keyof typeof rows): string {
    const isDirect = row === "gatewayKilled" || row === "gatewayStopped";
    return isDirect ? this.system.gateway.privateUrl : `http://127.0.0.1:${this.#network.port}`;
  }

  readonly outages: Readonly<Record<keyof typeof rows, Outage>> = {
    redisKilled: {
      begin: () => this.#redis.stop("SIGKILL"),
      end: () => this.#redis.start(),
    },
    redisSlow: this.#slowing(() => this.#toRedis),
    redisRubbish: this.#replacing(
      () => this.#toRedis,
      (socket) => socket.on("data", () => socket.write("rubbish\r\n?\r\n")),
    ),
    gatewayKilled: {
      begin: async () => {
        const { master, workers } = nginxProcesses(this.system.gateway);
        for (const pid of [master, ...workers]) process.kill(pid, "SIGKILL");
        await this.system.gateway.program.stop();
      },
      end: () => this.system.startGatewayAgain(this.system.gateway),
    },
    gatewayStopped: {
      begin: async () => this.#signalWorkers("SIGSTOP"),
      end: async () => this.#signalWorkers("SIGCONT"),
    },
    gatewayRubbish: this.#replacing(
      () => this.#network,
      (socket) => socket.on("data", () => socket.write("\u0000rubbish\r\n\r\nrubbish\r\n\r\n")),
    ),
    gatewayCloses: this.#replacing(
      () => this.#network,
      (socket) => socket.on("data", () => socket.destroy()),
    ),
    networkRefuses: {
      begin: () => this.#network.refuse(),
      end: () => this.#network.accept(),
    },
    networkHangsUp: {
      begin: async () => {
        this.#network.losesReply = () => true;
      },
      end: async () => {
        this.#network.losesReply = () => false;
      },
    },
    networkSlow: this.#slowing(() => this.#network),
  };

  reload(): void {
    process.kill(nginxProcesses(this.system.gateway).master, "SIGHUP");
  }

  async stop(): Promise<void> {
    await this.#network.refuse();
    await this.system.stop();
    await this.#toRedis.refuse();
    await this.#redis.stop();
  }

  #signalWorkers(signal: NodeJS.Signals): void {
    for (const pid of nginxProcesses(this.system.gateway).workers) process.kill(pid, signal);
  }

  #slowing(proxy: () => TcpProxy): Outage {
    return {
      begin: async () => {
        proxy().delayMs = slowMs;
      },
      end: async () => {
        // What is under way would still come late.
        proxy().hangUp();
        proxy().delayMs = 0;
      },
    };
  }

  /** Something else listens in the proxy's place. */
  #replacing(proxy: () => TcpProxy, serve: (socket: Socket) => void): Outage {
    let server: Server | undefined;
    const sockets = new Set<Socket>();
    return {
      begin: async () => {
        await proxy().refuse();
        server = createServer((socket) => {
          sockets.add(socket.on("error", () => undefined));
          serve(socket);
        });
        server.listen(proxy().port, "127.0.0.1");
        await once(server, "listening");
      },
      end: async () => {
        server?.close();
        for (const socket of sockets) socket.destroy();
        sockets.clear();
        await proxy().accept();
      },
    };
  }
}
