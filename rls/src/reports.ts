// Lines for the operator, on stderr. A mistake in a policy or a token meets every request: each subject has a line once a minute.

const silenceMs = 60_000;
const mostSubjects = 100;

export class Reports {
  readonly #write: (line: string) => void;
  readonly #now: () => number;
  readonly #saidAtMs = new Map<string, number>();
  #since = 0;

  /** @param now ms of a clock that never steps back */
  constructor(write: (line: string) => void, now: () => number) {
    this.#write = write;
    this.#now = now;
  }

  /** @param subject what the line is about: another line about it is left out for a minute */
  say(subject: string, line: string): void {
    const now = this.#now();
    if (now - this.#since >= silenceMs) {
      this.#saidAtMs.clear();
      this.#since = now;
    }
    // Beyond so many subjects, somebody makes them up, and they share one line.
    const known = this.#saidAtMs.size < mostSubjects ? subject : "";
    if (this.#saidAtMs.has(known)) return;
    this.#saidAtMs.set(known, now);
    this.#write(`sluice: rate limit service: ${line.replace(/[^ -~]/g, "?").slice(0, 500)}\n`);
  }
}
