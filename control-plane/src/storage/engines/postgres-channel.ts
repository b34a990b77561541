// A channel of PostgreSQL (LISTEN and NOTIFY) by which control planes of one database hear of each other's changes. It has a
// connection of its own beside the pool. Everything works without it: while it is away, a change is noticed within 250 ms.

import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import type { ServerConfiguration } from "./database-url.ts";
import { connectionOptions } from "./postgres.ts";

const name = "sluice_changes";
const retryMs = 1_000;
const patienceMs = 5_000;

export class PostgresChannel {
  readonly #configuration: ServerConfiguration;
  readonly #stop = new AbortController();
  #client: Client | undefined;
  #listening: Promise<void> = Promise.resolve();

  constructor(configuration: ServerConfiguration) {
    this.#configuration = configuration;
  }

  async publish(text: string): Promise<void> {
    if (this.#client === undefined) throw new Error("no connection");
    await this.#client.query("select pg_notify($1, $2)", [name, text]);
  }

  listen(onMessage: (text: string) => void): void {
    this.#listening = this.#keepListening(onMessage);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#listening;
  }

  async #keepListening(onMessage: (text: string) => void): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const client = new Client({
        ...connectionOptions(this.#configuration),
        connectionTimeoutMillis: patienceMs,
        query_timeout: patienceMs,
        application_name: "sluice listens",
        keepAlive: true,
        keepAliveInitialDelayMillis: 10_000,
      });
      const ended = new Promise<void>((resolve) => {
        client.once("end", resolve);
        // The connection may be lost at any time, and the loop begins another one.
        client.on("error", () => resolve());
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      client.on("notification", ({ channel, payload }) => {
        if (channel === name && payload !== undefined) onMessage(payload);
      });
      try {
        await client.connect();
        await client.query(`listen ${name}`);
        this.#client = client;
        await ended;
      } catch {
        // The database's own connections report what is wrong with the server.
      }
      this.#client = undefined;
      await Promise.race([client.end().catch(() => undefined), sleep(retryMs, undefined, { ref: false })]);
      await sleep(retryMs, undefined, { ref: false, signal }).catch(() => undefined);
    }
  }
}
