// Slots that a caller holds: renewed after a third of their ttl for as long as the work lasts, and lost if nobody could renew them
// within it. They expire by themselves, so nothing here fails.

import { setTimeout as sleep } from "node:timers/promises";
import { readRenewal } from "./answers.ts";
import type { Exchange, Reply } from "./exchange.ts";
import { mostMs } from "./settings.ts";

export interface Hold {
  /** Resolves if the slots are lost; never after a release. */
  readonly lost: Promise<void>;
  /** Frees the slots. It can be called often, and never rejects. */
  release(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const shortestRetryMs = 100;
const releases = 3;
const betweenReleasesMs = 100;

/** What `onFailure: "allow"` gives while nobody can be asked. */
export function holdWithoutSlots(): Hold {
  const release = async () => {};
  return { lost: new Promise(() => {}), release, [Symbol.asyncDispose]: release };
}

export class RenewedHold implements Hold {
  readonly lost: Promise<void>;
  readonly #exchange: Exchange;
  readonly #body: string;
  readonly #deadlineMs: number;
  readonly #ended: (hold: RenewedHold) => void;
  #ttlMs: number;
  /** The slots last at least until then. */
  #untilMs: number;
  #timer: NodeJS.Timeout | undefined;
  #lose: () => void = () => {};
  #hasEnded = false;
  #released: Promise<void> | undefined;

  /** @param ended called once it needs no renewal any more */
  constructor(
    exchange: Exchange,
    { text, ttlMs }: { readonly text: string; readonly ttlMs: number },
    deadlineMs: number,
    ended: (hold: RenewedHold) => void,
  ) {
    this.#exchange = exchange;
    this.#ended = ended;
    this.#body = JSON.stringify({ hold: text });
    this.#deadlineMs = deadlineMs;
    this.#ttlMs = ttlMs;
    this.#untilMs = performance.now() + ttlMs;
    this.lost = new Promise((resolve) => {
      this.#lose = resolve;
    });
    this.#renewAfter(ttlMs / 3);
  }

  release(): Promise<void> {
    this.stopRenewing();
    this.#released ??= this.#release();
    return this.#released;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  stopRenewing(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    this.#ended(this);
  }

  #renewAfter(ms: number): void {
    const lastsMs = Math.max(0, this.#untilMs - performance.now());
    this.#timer = setTimeout(() => void this.#renew(), Math.min(ms, lastsMs, mostMs)).unref();
  }

  async #renew(): Promise<void> {
    const askedAtMs = performance.now();
    const lastsMs = this.#untilMs - askedAtMs;
    if (lastsMs <= 0) {
      this.#noteLoss();
      return;
    }
    const reply = await this.#exchange.post("/sluice/v1/renew", this.#body, Math.min(this.#deadlineMs, lastsMs));
    if (this.#hasEnded) return;
    const renewal = reply.kind === "answer" ? readRenewal(reply.body) : undefined;
    if (renewal === "lost") {
      this.#noteLoss();
    } else if (renewal === undefined) {
      this.#renewAfter(Math.max(shortestRetryMs, this.#ttlMs / 10));
    } else {
      this.#ttlMs = renewal;
      this.#untilMs = askedAtMs + renewal;
      this.#renewAfter(renewal / 3);
    }
  }

  #noteLoss(): void {
    this.stopRenewing();
    this.#lose();
  }

  async #release(): Promise<void> {
    for (let tried = 1; tried <= releases; tried++) {
      const reply: Reply = await this.#exchange.post("/sluice/v1/release", this.#body, this.#deadlineMs);
      if (reply.kind !== "failure" || tried === releases) return;
      await sleep(betweenReleasesMs);
    }
  }
}
