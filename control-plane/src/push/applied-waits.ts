// Lets requests wait until every gateway has applied a revision, or a change of a consumer. However many requests wait, an event costs one look at the
// gateways. Requests that need not wait any longer are answered a few at a time, so that other requests get their turn.

import { whoGivesWay } from "../limits/who-gives-way.ts";
import type { Position } from "../storage/epoch.ts";
import type { Applied } from "./fleet.ts";

/** What the gateways do, as far as somebody waits for it. */
export interface Awaited {
  on(event: "progress" | "closing", listener: () => void): unknown;
  /** Counts the gateways that have applied a revision. @param of the app whose change it is */
  applied(newest: Position, revision: number, of: string | undefined): Applied;
  /** Returns the newest revision that no gateway has yet to apply. */
  settled(newest: Position): number;
}

/** The token whose request waits, and the app that the token is for. */
export interface Asker {
  readonly tokenId: string;
  /** The app that the token is for; undefined means all apps. */
  readonly app: string | undefined;
  /** The app whose change is waited for, if gateways may have applied it for other apps alone. */
  readonly of?: string | undefined;
}

interface Waiter {
  readonly asker: Asker;
  readonly revision: number;
  answer(applied: Applied): void;
}

const mostOfToken = 100;
const mostOfAll = 1_000;
/** The most waiting requests to answer in one turn of the event loop. */
const mostAnsweredAtOnce = 10;

export class AppliedWaits {
  readonly #fleet: Awaited;
  readonly #newest: () => Position;
  /** Sorted by revision, lowest first: those that every gateway has applied or refused are at the front. */
  readonly #waiting: Waiter[] = [];
  /** Requests that wait no longer, whatever the gateways do, and will be answered soon. */
  readonly #over = new Set<Waiter>();
  #turn: NodeJS.Immediate | undefined;
  #closed = false;

  /**
   * @param newest returns the newest position now: the history may be replaced by another one during a wait, and keeps its
   * numbers
   */
  constructor(fleet: Awaited, newest: () => Position) {
    this.#fleet = fleet;
    this.#newest = newest;
    fleet.on("progress", () => {
      if (this.#waiting.length > 0) this.#takeTurn();
    });
    fleet.on("closing", () => {
      this.#closed = true;
      for (const waiter of this.#waiting.splice(0)) this.#over.add(waiter);
      this.#takeTurn();
    });
  }

  /**
   * Resolves with the counts at that moment when every connected gateway has applied or refused the revision, when the time
   * is over, when the signal says that the client has left, or when the control plane stops. Gateways that connect or leave
   * meanwhile are counted as they are then. If there is no room to wait, it resolves at once.
   */
  wait(revision: number, waitMs: number, asker: Asker, signal: AbortSignal): Promise<Applied> {
    const isSettled = revision <= this.#fleet.settled(this.#newest());
    if (isSettled || waitMs === 0 || signal.aborted || this.#closed || !this.#makeRoom(asker)) {
      return Promise.resolve(this.#fleet.applied(this.#newest(), revision, asker.of));
    }
    return new Promise((resolve) => {
      const end = () => this.#end(waiter);
      const timer = setTimeout(end, waitMs);
      signal.addEventListener("abort", end);
      const answer = (applied: Applied) => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        resolve(applied);
      };
      const waiter = { asker, revision, answer };
      const before = this.#waiting.findLastIndex((other) => other.revision <= revision);
      this.#waiting.splice(before + 1, 0, waiter);
    });
  }

  /**
   * Makes room for one more waiting request. If all places are taken, the last request of whoever has the most gives way to
   * whoever has fewer.
   * @returns whether one more request of this token may wait
   */
  #makeRoom({ tokenId, app }: Asker): boolean {
    if (this.#waiting.filter(({ asker }) => asker.tokenId === tokenId).length >= mostOfToken) return false;
    if (this.#waiting.length < mostOfAll) return true;
    const takenBy = (asker: Asker) => ({ app: asker.app ?? "", name: asker.tokenId, size: 1 });
    const taken = this.#waiting.map((waiter) => ({ ...takenBy(waiter.asker), waiter }));
    const last = whoGivesWay(taken, takenBy({ tokenId, app }));
    if (last === undefined) return false;
    this.#end(last.waiter);
    return true;
  }

  #end(waiter: Waiter): void {
    const at = this.#waiting.indexOf(waiter);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    this.#over.add(waiter);
    this.#takeTurn();
  }

  /** Many events in one turn of the event loop are handled together. */
  #takeTurn(): void {
    this.#turn ??= setImmediate(() => {
      this.#turn = undefined;
      this.#answerSome();
    });
  }

  #answerSome(): void {
    const newest = this.#newest();
    const settled = this.#fleet.settled(newest);
    const counts = new Map<string, Applied>();
    for (let answered = 0; answered < mostAnsweredAtOnce; answered++) {
      const waiter = this.#next(settled);
      if (waiter === undefined) return;
      const { revision, asker } = waiter;
      const what = `${revision} ${asker.of ?? ""}`;
      const applied = counts.get(what) ?? this.#fleet.applied(newest, revision, asker.of);
      counts.set(what, applied);
      waiter.answer(applied);
    }
    this.#takeTurn();
  }

  #next(settled: number): Waiter | undefined {
    const [first] = this.#waiting;
    if (first !== undefined && first.revision <= settled) return this.#waiting.shift();
    const [over] = this.#over;
    if (over !== undefined) this.#over.delete(over);
    return over;
  }
}
