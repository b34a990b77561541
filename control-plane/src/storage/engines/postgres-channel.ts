// A channel of PostgreSQL (LISTEN and NOTIFY) by which control planes of one database hear of each other's changes. It has a
// connection of its own beside the pool. Everything works without it: while it is away, a change is noticed within 250 ms.

import { setTimeout as sleep } from "node:timers/promises";
import { Client, type ClientConfig } from "pg";
import type { ServerConfiguration } from "./database-url.ts";
import { connectionOptions } from "./postgres.ts";

const name = "sluice_changes";
const retryMs = 1_000;
const patienceMs = 5_000;

export class PostgresChannel {
  readonly #options: ClientConfig;
  readonly #stop = new AbortController();
  #client: Client | undefined;
  #listening: Promise<void> = Promise.resolve();

  constructor(configuration: ServerConfiguration) {
    this.#options = connectionOptions(configuration);
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
    // A connection that is being made may take longer.
    await Promise.race([this.#listening, sleep(retryMs, undefined, { ref: false })]);
  }

  async #keepListening(onMessage: (text: string) => void): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const client = new Client({
        ...this.#options,
        connectionTimeoutMillis: patienceMs,
        query_timeout: patienceMs,
        application_name: "sluice listens",
        keepAlive: true,
        keepAliveInitialDelayMillis: 10_000,
      });
      let end = () => {};
      const ended = new Promise<void>((resolve) => {
        end = resolve;
      });
      // The connection may be lost at any time, and the loop begins another one.
      client.once("end", end);
      client.on("error", end);
      signal.addEventListener("abort", end);
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
      signal.removeEventListener("abort", end);
      await Promise.race([client.end().catch(() => undefined), sleep(retryMs, undefined, { ref: false })]);
      await sleep(retryMs, undefined, { ref: false, signal }).catch(() => undefined);
    }
  }
}
