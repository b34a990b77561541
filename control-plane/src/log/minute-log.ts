// Says each kind of trouble once a minute, however often it happens: whoever causes it may do so thousands of times in a second.

import type { FastifyBaseLogger } from "fastify";

interface Said {
  saidAtMs: number;
  timesSince: number;
}

const sayAgainAfterMs = 60_000;
/** So many lines at most in that time, of all kinds together: a stranger may come from any number of addresses. */
const mostLines = 100;
/** The most kinds to remember; the oldest are forgotten first. */
const mostRemembered = 1_000;

export class MinuteLog {
  readonly #log: FastifyBaseLogger;
  readonly #uptimeMs: () => number;
  readonly #more: string;
  readonly #said = new Map<string, Said>();
  /** Since when lines are counted, how many there were, and how many more were not said. */
  #lines = { sinceMs: Number.NEGATIVE_INFINITY, said: 0, unsaid: 0 };

  /**
   * @param uptimeMs a clock that nobody sets: by one that was put back, nothing would be said for as long
   * @param more what is said of the lines that were too many
   */
  constructor(log: FastifyBaseLogger, uptimeMs: () => number, more: string) {
    this.#log = log;
    this.#uptimeMs = uptimeMs;
    this.#more = more;
  }

  /** @param kind what has the same kind is said once a minute */
  say(level: "warn" | "error", kind: string, fields: object, what: string): void {
    const known = this.#said.get(kind);
    if (known !== undefined && this.#uptimeMs() - known.saidAtMs < sayAgainAfterMs) {
      known.timesSince += 1;
      return;
    }
    if (!this.#maySay()) return;
    this.#said.delete(kind);
    const [oldest] = this.#said.keys();
    if (oldest !== undefined && this.#said.size >= mostRemembered) this.#said.delete(oldest);
    this.#said.set(kind, { saidAtMs: this.#uptimeMs(), timesSince: 0 });
    this.#log[level]({ ...fields, timesSince: known?.timesSince }, what);
  }

  /** Forgets all kinds that begin so. @returns whether there were any */
  forget(beginning: string): boolean {
    const found = [...this.#said.keys()].filter((kind) => kind.startsWith(beginning));
    for (const kind of found) this.#said.delete(kind);
    return found.length > 0;
  }

  #maySay(): boolean {
    const nowMs = this.#uptimeMs();
    const { sinceMs, unsaid } = this.#lines;
    if (nowMs - sinceMs >= sayAgainAfterMs) {
      this.#lines = { sinceMs: nowMs, said: 0, unsaid: 0 };
      if (unsaid > 0) this.#log.warn({ unsaid }, this.#more);
    }
    if (this.#lines.said >= mostLines) {
      this.#lines.unsaid += 1;
      return false;
    }
    this.#lines.said += 1;
    return true;
  }
}
