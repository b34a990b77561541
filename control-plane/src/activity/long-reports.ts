// Reports about long times, as gateways send them after an outage: of thousands of policies at once, each with what happened in hours. They
// are kept as they are and spread over their time when somebody reads it, so that a report of a day costs no more than one of a second.

/** What happened in some time, evenly. */
export interface LongReport {
  readonly fromMs: number;
  readonly toMs: number;
  readonly counts: readonly number[];
}

/** Of one name. If there are more, the two whose times are most alike become one: all gateways report about the same outage. */
const mostOfName = 8;
/** No report is longer. */
const longestMs = 86_400_000;

export class LongReports {
  /** The names about which something was reported last come last. */
  readonly #byName = new Map<string, LongReport[]>();
  readonly #mostNames: number;

  constructor(mostNames: number) {
    this.#mostNames = mostNames;
  }

  /** @returns the reports that give way, of another name */
  add(name: string, report: LongReport): readonly LongReport[] {
    const reports = this.#byName.get(name) ?? [];
    this.#byName.delete(name);
    reports.push(report);
    if (reports.length > mostOfName) joinMostAlike(reports);
    this.#byName.set(name, reports);
    if (this.#byName.size <= this.#mostNames) return [];
    const [[oldest, lost] = ["", []]] = this.#byName;
    this.#byName.delete(oldest);
    return lost;
  }

  of(name: string): readonly LongReport[] {
    return this.#byName.get(name) ?? [];
  }

  names(): IterableIterator<string> {
    return this.#byName.keys();
  }

  /** Forgets what ended before. */
  forget(beforeMs: number): void {
    for (const [name, reports] of this.#byName) {
      const left = reports.filter(({ toMs }) => toMs >= beforeMs);
      if (left.length === 0) this.#byName.delete(name);
      else if (left.length < reports.length) this.#byName.set(name, left);
    }
  }
}

/** Returns how many of all come to one of the equal parts of a time. The parts from 0 on have all together. */
export function shareOf(total: number, part: number, parts: number): number {
  return upTo(total, part + 1, parts) - upTo(total, part, parts);
}

/** Returns how many of all come to the first parts. */
export function upTo(total: number, part: number, parts: number): number {
  return part === parts ? total : Math.floor((total * part) / parts);
}

function joinMostAlike(reports: LongReport[]): void {
  let least = Number.POSITIVE_INFINITY;
  let [first, second] = [0, 1];
  for (const [i, one] of reports.entries()) {
    for (let j = i + 1; j < reports.length; j++) {
      const other = reports[j] as LongReport;
      const difference = Math.abs(one.fromMs - other.fromMs) + Math.abs(one.toMs - other.toMs);
      if (difference < least) [least, first, second] = [difference, i, j];
    }
  }
  const one = reports[first] as LongReport;
  const [other] = reports.splice(second, 1) as [LongReport];
  const toMs = Math.max(one.toMs, other.toMs);
  reports[first] = {
    fromMs: Math.max(Math.min(one.fromMs, other.fromMs), toMs - longestMs),
    toMs,
    counts: one.counts.map((count, i) => count + (other.counts[i] as number)),
  };
}
