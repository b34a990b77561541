// Whether more was admitted than a token bucket ever admits. A request was decided at some moment between being sent and
// being answered, so those that lie in an interval with both ends were decided in it: no false alarm, however late an
// answer was.

/** When a request that was admitted was sent, and answered. */
export interface Admission {
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
}

/** Units that a fault may have made the counter forget, once, between these moments. */
export interface Loss {
  readonly fromMs: number;
  readonly toMs: number;
  readonly units: number;
}

/**
 * @returns the most that was admitted within any interval of length t beyond `ratePerSecond · t` and what was lost in it:
 * at most the bucket's burst, if it is kept. To a millionth of a unit
 */
export function mostAtOnce(
  admissions: readonly Admission[],
  ratePerSecond: number,
  losses: readonly Loss[] = [],
): number {
  const bySending = admissions.toSorted((a, b) => b.sentAtMs - a.sentAtMs);
  const answersAtMs = Float64Array.from(admissions, ({ answeredAtMs }) => answeredAtMs).sort();
  const lossesByEnd = losses.toSorted((a, b) => b.toMs - a.toMs);
  // For each moment at which an interval may end: what was admitted by then less what was refilled and lost by then, of
  // the interval that begins where we are. From the last beginning to the first, each admission is put in once.
  const excess = new SuffixMaximum(Float64Array.from(answersAtMs, (atMs) => (-atMs / 1000) * ratePerSecond));
  let most = 0;
  let lost = 0;
  for (const [i, { sentAtMs: fromMs, answeredAtMs }] of bySending.entries()) {
    for (; (lossesByEnd[lost]?.toMs ?? Number.NEGATIVE_INFINITY) >= fromMs; lost++) {
      const { fromMs: lostFromMs, units } = lossesByEnd[lost] as Loss;
      excess.addFrom(firstFrom(answersAtMs, lostFromMs), -units);
    }
    excess.addFrom(firstFrom(answersAtMs, answeredAtMs), 1);
    // Others that were sent at the same moment are in the same intervals.
    if (bySending[i + 1]?.sentAtMs === fromMs) continue;
    most = Math.max(most, excess.from(firstFrom(answersAtMs, fromMs)) + (fromMs / 1000) * ratePerSecond);
  }
  return Math.round(most * 1e6) / 1e6;
}

/** @returns the index of the first that is not before, or the length */
function firstFrom(ascending: Float64Array, atMs: number): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] as number) < atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Numbers of which all from one on are raised at once, and the greatest from one on is asked, in logarithmic time. */
class SuffixMaximum {
  /** Leaves of the tree; below `#leaves` are the inner nodes, each with the children 2i and 2i + 1. */
  readonly #leaves: number;
  readonly #greatest: Float64Array;
  /** What all below a node are raised by, which is in the node's own greatest already. */
  readonly #raised: Float64Array;

  constructor(numbers: Float64Array) {
    this.#leaves = 2 ** Math.ceil(Math.log2(Math.max(1, numbers.length)));
    this.#greatest = new Float64Array(2 * this.#leaves).fill(Number.NEGATIVE_INFINITY);
    this.#raised = new Float64Array(2 * this.#leaves);
    this.#greatest.set(numbers, this.#leaves);
    for (let node = this.#leaves - 1; node >= 1; node--) this.#gather(node);
  }

  addFrom(index: number, by: number): void {
    if (index >= this.#leaves) return;
    let node = index + this.#leaves;
    this.#raise(node, by);
    for (; node > 1; node >>>= 1) {
      if (node % 2 === 0) this.#raise(node + 1, by);
      this.#gather(node >>> 1);
    }
  }

  from(index: number): number {
    if (index >= this.#leaves) return Number.NEGATIVE_INFINITY;
    let node = index + this.#leaves;
    let greatest = this.#greatest[node] as number;
    for (; node > 1; node >>>= 1) {
      if (node % 2 === 0) greatest = Math.max(greatest, this.#greatest[node + 1] as number);
      greatest += this.#raised[node >>> 1] as number;
    }
    return greatest;
  }

  #raise(node: number, by: number): void {
    this.#greatest[node] = (this.#greatest[node] as number) + by;
    this.#raised[node] = (this.#raised[node] as number) + by;
  }

  #gather(node: number): void {
    const [left, right] = [this.#greatest[2 * node], this.#greatest[2 * node + 1]] as [number, number];
    this.#greatest[node] = Math.max(left, right) + (this.#raised[node] as number);
  }
}
