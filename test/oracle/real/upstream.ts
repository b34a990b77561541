// The service behind all gateways: it says which requests have come, and whoever has sent them decides when they are answered. It also knows
// when this process, or the machine, was too busy to notice them.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What names a request. */
export const idHeader = "x-oracle";

export interface Arrival {
  readonly atMs: number;
  readonly headers: IncomingMessage["headers"];
  readonly response: ServerResponse;
}

const lookEveryMs = 50;

export class Upstream {
  readonly #server: Server;
  readonly #looks: NodeJS.Timeout;
  #lookedAtMs = performance.now();
  #stalledMs = 0;
  readonly #expected = new Map<string, (arrival: Arrival) => void>();

  private constructor() {
    this.#server = createServer(({ headers }, response) => {
      this.#expected.get(`${headers[idHeader]}`)?.({ atMs: performance.now(), headers, response });
    });
    this.#server.keepAliveTimeout = 0;
    this.#looks = setInterval(() => {
      this.#stalledMs = this.stalledMs;
      this.#lookedAtMs = performance.now();
    }, lookEveryMs);
  }

  static async start(): Promise<Upstream> {
    const upstream = new Upstream();
    await new Promise<void>((resolve) => upstream.#server.listen(0, "127.0.0.1", resolve));
    return upstream;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** How long this process has stood still so far. */
  get stalledMs(): number {
    return this.#stalledMs + Math.max(0, performance.now() - this.#lookedAtMs - lookEveryMs);
  }

  expect(id: string, arrived: (arrival: Arrival) => void): void {
    this.#expected.set(id, arrived);
  }

  forget(id: string): void {
    this.#expected.delete(id);
  }

  stop(): void {
    clearInterval(this.#looks);
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
