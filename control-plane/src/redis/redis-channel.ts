// A channel of Redis by which control planes hear of each other's changes. It has a connection of its own, because a connection that
// listens can do nothing else. Everything works without it: a right that is missing, or a Redis that is away, costs 250 ms.

import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { listenerFor } from "./redis-client.ts";
import type { RedisLink } from "./redis-link.ts";
import type { RedisDeployment } from "./redis-url.ts";

export interface RedisChannelDependencies {
  readonly deployment: RedisDeployment;
  readonly link: RedisLink;
  /** Called once, with Redis' words, if its user may not publish or subscribe. */
  onRefused(error: string): void;
}

const retryMs = 1_000;
/** Then the name may lead to another server. Nothing is lost: control planes look for changes by themselves. */
const greatestAgeMs = 30_000;

export class RedisChannel {
  readonly #dependencies: RedisChannelDependencies;
  /** Channels are the same for all databases of a Redis, and its databases may be of different fleets. */
  readonly #name: string;
  readonly #stop = new AbortController();
  #listener: Redis | undefined;
  #wasRefused = false;

  constructor(dependencies: RedisChannelDependencies) {
    this.#dependencies = dependencies;
    this.#name = `sluice:changes:${dependencies.deployment.database}`;
  }

  async publish(text: string): Promise<void> {
    try {
      await this.#dependencies.link.publish(this.#name, text);
    } catch (error) {
      this.#note(error);
      throw error;
    }
  }

  listen(onMessage: (text: string) => void): void {
    void this.#keepListening(onMessage);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#listener?.disconnect();
  }

  async #keepListening(onMessage: (text: string) => void): Promise<void> {
    const { deployment, link } = this.#dependencies;
    const { signal } = this.#stop;
    const pause = () => sleep(retryMs, undefined, { ref: false, signal }).catch(() => undefined);
    for (let tries = 0; !signal.aborted; tries += 1) {
      // What answers in place of a Redis may answer SUBSCRIBE in a way that ioredis does not survive.
      while (link.health.state !== "ok" && !signal.aborted) await pause();
      if (signal.aborted) return;
      const listener = listenerFor(deployment, tries);
      this.#listener = listener;
      // Without a listener, an error event would end the process.
      listener.on("error", (error) => this.#note(error));
      listener.on("message", (_channel, text) => onMessage(text));
      const ended = new Promise((resolve) => listener.once("end", resolve));
      try {
        await listener.connect();
        await listener.subscribe(this.#name);
        // Nothing has failed then: the next connection is made at once.
        if (await lastsFor(greatestAgeMs, ended)) {
          listener.disconnect();
          continue;
        }
      } catch (error) {
        this.#note(error);
      }
      listener.disconnect();
      await pause();
    }
  }

  #note(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    if (this.#wasRefused || !message.includes("NOPERM")) return;
    this.#wasRefused = true;
    this.#dependencies.onRefused(message);
  }
}

/** @returns true after so long, false if it has ended before */
async function lastsFor(ms: number, ended: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const aged = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, true).unref();
  });
  const lasted = await Promise.race([aged, ended.then(() => false)]);
  clearTimeout(timer);
  return lasted;
}
