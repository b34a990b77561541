// A steady load: so many requests a second to these gateways in turn, whether or not earlier ones were answered, as
// clients that know nothing of each other make it. Remembers what became of each.

import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { type Answer, ask } from "../fixtures/requests.ts";

export interface Served {
  /** Index of the gateway. */
  readonly gateway: number;
  readonly key: string;
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
  /** 0: no answer came, also not to a second try. */
  readonly status: number;
  /** What X-RateLimit-Limit and X-RateLimit-Remaining told. */
  readonly limit: number | undefined;
  readonly remaining: number | undefined;
}

/** Sends one request. @param agent absent for a second try */
export type Asks = (url: string, key: string, agent?: Agent) => Promise<Answer>;

const getting: Asks = (url, key, agent) => ask(url, { headers: { "x-key": key }, ...(agent && { agent }) });

const turnMs = 4;
/** After this process has been kept waiting, so much is sent at once at most: clients that know nothing of it make no crowd. */
const mostBehindMs = 250;

export class Load {
  readonly served: Served[] = [];
  /** Connections that broke before an answer came; the request was sent once more, as a client does. */
  broken = 0;
  ratePerSecond: number;
  readonly #urls: readonly string[];
  readonly #keys: readonly string[];
  readonly #asks: Asks;
  #agents: Agent[];
  #outstanding = new Set<Promise<void>>();
  #running: Promise<void> | undefined;
  #stopping = false;
  #sent = 0;

  /** @param keys each in turn @param asks how: by a GET with the key as X-Key, if not said */
  constructor(urls: readonly string[], ratePerSecond: number, keys: readonly string[], asks = getting) {
    this.#urls = urls;
    this.#keys = keys;
    this.#asks = asks;
    this.ratePerSecond = ratePerSecond;
    this.#agents = urls.map(() => new Agent({ keepAlive: true }));
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Waits for what is still to be answered. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#running;
    await Promise.all(this.#outstanding);
    for (const agent of this.#agents) agent.destroy();
  }

  /** Every client hangs up and comes anew with its next request. */
  reconnect(): void {
    const agents = this.#agents;
    this.#agents = this.#urls.map(() => new Agent({ keepAlive: true }));
    for (const agent of agents) for (const sockets of Object.values(agent.freeSockets)) sockets?.forEach(hangUp);
  }

  async #run(): Promise<void> {
    let lastMs = performance.now();
    let due = 0;
    while (!this.#stopping) {
      await sleep(turnMs);
      const nowMs = performance.now();
      due += (Math.min(nowMs - lastMs, mostBehindMs) / 1000) * this.ratePerSecond;
      lastMs = nowMs;
      for (; due >= 1; due--) this.#send();
    }
  }

  #send(): void {
    const gateway = this.#sent % this.#urls.length;
    const key = this.#keys[Math.floor(this.#sent / this.#urls.length) % this.#keys.length] as string;
    this.#sent += 1;
    const done = this.#serve(gateway, key).finally(() => this.#outstanding.delete(done));
    this.#outstanding.add(done);
  }

  async #serve(gateway: number, key: string): Promise<void> {
    const sentAtMs = performance.now();
    const answer = await this.#ask(gateway, key);
    this.served.push({
      gateway,
      key,
      sentAtMs,
      answeredAtMs: performance.now(),
      status: answer?.status ?? 0,
      limit: numberIn(answer?.headers["x-ratelimit-limit"]),
      remaining: numberIn(answer?.headers["x-ratelimit-remaining"]),
    });
  }

  async #ask(gateway: number, key: string): Promise<Answer | undefined> {
    const url = this.#urls[gateway] as string;
    try {
      return await this.#asks(url, key, this.#agents[gateway]);
    } catch {
      this.broken += 1;
      return this.#asks(url, key).catch(() => undefined);
    }
  }
}

function numberIn(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

function hangUp(socket: { destroy(): void }): void {
  socket.destroy();
}
