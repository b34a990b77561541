// A real nginx whose workers can be asked one by one. A control plane of the player's own gives it the policies of one world at a time.

import { createHash } from "node:crypto";
import { connect } from "node:net";
import { consumersBeginning } from "../../../limiter/src/protocol/consumer-lines.ts";
import { Connection } from "../../fixtures/clients/connections.ts";
import type { Answer } from "../../fixtures/clients/requests.ts";
import { frameText } from "../../fixtures/documents/loaded-state.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { PushServer } from "../../fixtures/servers/push-server.ts";
import type { SetClock } from "../../fixtures/servers/set-clock.ts";
import { until } from "../../fixtures/until.ts";
import type { Zones } from "../players.ts";
import type { CounterRow, OfCounter, PolicyDocument, TopUp } from "../world.ts";

const orders = { read: "read", reset: "forget", "top-up": "top-up" } as const;
const epoch = "oracle";
const callersToken = "a-token-of-a-caller";
/** A gateway leaves a control plane that is silent for 15 s. */
const pingEveryMs = 5_000;
/** Answered by nginx itself: whoever hears it knows that the worker has seen all that was sent to it before. */
const echo = "/the-oracle-asks-whether-you-hear";
/** A policy in shadow mode logs what it would have refused. */
const refusalInShadow = "shadow policy would have refused";
/** nginx takes a request from the same connection without looking at the clock again, if it is there already. */
const leastIdle = 2;

/** The units of one request always have room in a leaky-bucket: five units of one a minute wait for five minutes. */
const longestWaitMs = 10 * 60_000;

export class RealGateway {
  readonly #nginx: LoneGateway;
  readonly #push: PushServer;
  readonly #pings: NodeJS.Timeout;
  /** Connections without a request, by the worker that has accepted them. */
  readonly #idle: Connection[][];
  /** Of the workers: the first one is that of number 1. */
  #pids: string[] = [];
  /** What is asked, also by the world before. Nobody asks while nginx begins. */
  readonly #underWay = new Set<Promise<Answer>>();
  #begun: Promise<void> = Promise.resolve();
  #orders = 0;
  #logRead = 0;

  private constructor(nginx: LoneGateway, push: PushServer, workers: number) {
    this.#nginx = nginx;
    this.#push = push;
    this.#idle = Array.from({ length: workers }, () => []);
    this.#pings = setInterval(() => push.socket?.ping(), pingEveryMs).unref();
  }

  static async start(
    id: string,
    workers: number,
    clock: SetClock,
    redisUrl: string,
    upstreamUrl: string,
  ): Promise<RealGateway> {
    const pushPort = await freePort();
    const push = new PushServer(pushPort);
    const nginx = await LoneGateway.start({
      workers,
      clock,
      edit: askable,
      env: {
        SLUICE_GATEWAY_ID: id,
        SLUICE_CONTROL_URL: `http://127.0.0.1:${pushPort}`,
        SLUICE_GATEWAY_TOKEN: "a-token-that-nobody-checks",
        SLUICE_REDIS_URL: redisUrl,
        // A machine that is busy must not look like a failing Redis.
        SLUICE_REDIS_DEADLINE_MS: "60000",
        SLUICE_UPSTREAM: upstreamUrl,
      },
    });
    const gateway = new RealGateway(nginx, push, workers);
    await gateway.#begin();
    return gateway;
  }

  async #begin(): Promise<void> {
    await until("the gateway is connected", () => this.#push.socket !== undefined);
    while (this.#idle.some(({ length }) => length < leastIdle)) await this.#connect();
  }

  restart(): Promise<void> {
    return this.#beginAnew(() => this.#nginx.restart());
  }

  reload(): Promise<void> {
    return this.#beginAnew(async () => {
      const { socket } = this.#push;
      const former = [...this.#pids];
      process.kill(this.#nginx.pid, "SIGHUP");
      await until("the former workers have ended", () => !former.some(isRunning));
      await until("the gateway is connected anew", () => this.#push.socket !== socket);
    });
  }

  #beginAnew(change: () => Promise<void>): Promise<void> {
    this.#begun = Promise.allSettled(this.#underWay).then(async () => {
      await change();
      this.#leaveWorkers();
      await this.#begin();
    });
    return this.#begun;
  }

  #leaveWorkers(): void {
    for (const idle of this.#idle) for (const connection of idle.splice(0)) connection.hangUp();
    this.#pids = [];
  }

  /** Gives it these policies, and no others. @throws if it does not take them */
  async publish(
    revision: number,
    app: string,
    policies: readonly PolicyDocument[],
    zones: Zones,
    gateways: number,
  ): Promise<void> {
    this.#push.socket?.send(JSON.stringify({ type: "fleet", gateways, takesActivity: false, protocol: 3 }));
    const documents = policies.map((document) => ({ app, document }));
    const callers = [{ app, sha256: createHash("sha256").update(callersToken).digest("hex") }];
    const snapshot = { type: "snapshot", format: 1, epoch, revision, policies: documents, callers, zones };
    const answer = await this.#push.ask(
      frameText(snapshot),
      (one) => one.revision === revision && (one.type === "applied" || one.type === "refused"),
    );
    if (answer.type === "refused") throw new Error(`the policies were refused: ${JSON.stringify(answer.problems)}`);
  }

  /** Tells it of consumers, beside those that it has of this history. @param position of the history: 0 begins it */
  async tellOfConsumers(history: string, position: number, lines: readonly string[]): Promise<void> {
    const to = position + 1;
    const head = { epoch: history, from: position, to, ...(position === 0 ? { fresh: true } : {}), more: false };
    const message = `${consumersBeginning}${JSON.stringify(head).slice(1)}\n${lines.join("")}`;
    await this.#push.ask(message, (one) => one.type === "consumers" && one.epoch === history && one.position === to);
  }

  async order(app: string, event: OfCounter | TopUp): Promise<readonly CounterRow[]> {
    const id = ++this.#orders;
    const { policy, key } = event;
    const units = event.do === "top-up" ? { units: event.units } : {};
    const order = { type: "counter", id, do: orders[event.do], app, policy, key, ...units };
    const answer = await this.#push.ask(JSON.stringify(order), (one) => one.type === "counter" && one.id === id);
    const { limits = [] } = answer as { limits?: readonly (Omit<CounterRow, "limit"> & { capacity: number })[] };
    return limits.map(({ name, capacity, remaining, resetAfterUs }) => ({
      name,
      limit: capacity,
      remaining,
      resetAfterUs,
    }));
  }

  /** Asks this worker. */
  ask(worker: number, path: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
    return this.#send(worker, `GET ${path}`, headers, "");
  }

  /** Asks this worker's check API. @param body in ASCII */
  check(worker: number, body: string): Promise<Answer> {
    const headers = {
      authorization: `Bearer ${callersToken}`,
      "content-type": "application/json",
      "content-length": `${body.length}`,
    };
    return this.#send(worker, "POST /sluice/v1/check", headers, body);
  }

  async #send(worker: number, what: string, headers: Readonly<Record<string, string>>, body: string): Promise<Answer> {
    for (let begun: unknown; begun !== this.#begun; await begun) begun = this.#begun;
    const answer = this.#sendNow(worker, what, headers, body);
    this.#underWay.add(answer);
    try {
      return await answer;
    } finally {
      this.#underWay.delete(answer);
    }
  }

  async #sendNow(
    worker: number,
    what: string,
    headers: Readonly<Record<string, string>>,
    body: string,
  ): Promise<Answer> {
    const idle = this.#idle[worker - 1] as Connection[];
    // A connection without a request is closed after a while.
    for (let i = idle.length - 1; i >= 0; i--) if (idle[i]?.isOpen === false) idle.splice(i, 1);
    while (idle.length < leastIdle) await this.#connect();
    const connection = idle.shift() as Connection;
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const answer = await connection.ask(`${what} HTTP/1.1\r\nhost: localhost\r\n${lines.join("")}\r\n${body}`);
    idle.push(connection);
    return answer;
  }

  /** Returns when the worker has seen all that was sent to it before. */
  async hears(worker: number): Promise<void> {
    await this.ask(worker, echo);
  }

  /** @returns what nginx has logged as an error since the last call */
  newError(): string | undefined {
    const { log } = this.#nginx;
    const lines = log.slice(this.#logRead).split("\n");
    this.#logRead = log.length;
    return lines.find((line) => /\[(error|crit|alert|emerg)\]/.test(line) && !line.includes(refusalInShadow));
  }

  async stop(): Promise<void> {
    clearInterval(this.#pings);
    this.#leaveWorkers();
    await this.#nginx.stop();
    await this.#push.stop();
  }

  /** One more connection: the kernel chooses the worker. */
  async #connect(): Promise<void> {
    const { hostname, port } = new URL(this.#nginx.url);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    const connection = new Connection(socket, longestWaitMs);
    const { headers } = await connection.ask(`GET ${echo} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
    const pid = headers["x-worker"] as string;
    if (!this.#pids.includes(pid)) this.#pids.push(pid);
    const idle = this.#idle[this.#pids.indexOf(pid)];
    if (idle === undefined) throw new Error(`a worker of nginx has ended: ${this.#nginx.log}`);
    idle.push(connection);
  }
}

function isRunning(pid: string): boolean {
  try {
    return process.kill(Number(pid), 0);
  } catch {
    return false;
  }
}

/** Each worker listens by itself and says which it is, connections stay open, and clients say where they come from. */
function askable(config: string): string {
  return config.replace(/(\n {2}server \{\n)( {4}listen [^;]+);/, (_, server: string, listen: string) =>
    [
      "\n  keepalive_requests 1000000000;",
      "  keepalive_timeout 1d;",
      "  set_real_ip_from 127.0.0.1;",
      "  real_ip_header X-Real-IP;",
      `${server.slice(1)}${listen} reuseport;`,
      "    add_header X-Worker $pid always;",
      `    location = ${echo} { return 200 heard; }`,
      "    location /sluice/v1/ { content_by_lua_block { sluice.api() } }",
    ].join("\n"),
  );
}
