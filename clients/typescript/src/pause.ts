// The pause after a failure, in which nobody is asked: a gateway that is down is not asked by every call, each of which would wait
// until its deadline.

import type { Failure } from "./exchange.ts";

/** However long a gateway asks for. */
const longestMs = 5000;

export class Pause {
  readonly #lastsMs: number;
  readonly #begun: (failure: string) => void;
  #untilMs = 0;
  #failure = "";

  /** @param begun called at each failure, for calls that wait for their turn to ask */
  constructor(lastsMs: number, begun: (failure: string) => void) {
    this.#lastsMs = lastsMs;
    this.#begun = begun;
  }

  begin({ failure, retryAfterSeconds = 0 }: Failure): void {
    const ms = retryAfterSeconds > 0 ? Math.min(longestMs, retryAfterSeconds * 1000) : this.#lastsMs;
    this.#untilMs = Math.max(this.#untilMs, performance.now() + ms);
    this.#failure = `Nobody is asked for a moment after a failure: ${failure}`;
    this.#begun(this.#failure);
  }

  /** Why nobody is asked now; undefined: ask. */
  get failure(): string | undefined {
    return performance.now() < this.#untilMs ? this.#failure : undefined;
  }
}
