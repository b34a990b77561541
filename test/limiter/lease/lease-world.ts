// A world of gateways that share leased counters, moved one random step at a time: messages are lost, doubled, delayed and
// overtake each other, gateways die, clocks run apart. An observer per limit knows every unit that is spent, and when, by
// Redis' clock.

import type * as chargeAll from "../../../limiter/src/algorithms/charge-all.ts";
import type { Limit } from "../../../limiter/src/algorithms/limit.ts";
import type * as memory from "../../../limiter/src/algorithms/memory-ring.ts";
import type * as rates from "../../../limiter/src/algorithms/rate.ts";
import type * as holders from "../../../limiter/src/lease/holder.ts";
import type * as ledgers from "../../../limiter/src/lease/ledger.ts";

/** The product, or a copy of it in which a line is broken. */
export type Product = typeof rates & typeof memory & typeof chargeAll & typeof holders & typeof ledgers;
type Counter = chargeAll.Counter & memory.MemoryCounter;

export type Random = (below: number) => number;

/** @returns a generator of whole numbers from 0, the same for the same seed */
export function seeded(seed: number): Random {
  let state = seed % 2147483647 || 1;
  return (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
}

export class Redis {
  readonly product: Product;
  readonly parameters: ledgers.LeaseParameters;
  readonly limits: readonly Limit[];
  ledger: ledgers.Ledger = { holdings: [], count: 0 };
  counters: Counter[] = [];

  constructor(product: Product, limits: readonly Limit[], parameters: ledgers.LeaseParameters) {
    this.product = product;
    this.limits = limits;
    this.parameters = parameters;
    this.forget();
  }

  /** Leaves what a FLUSHALL leaves. */
  forget(): void {
    this.ledger = { holdings: [], count: 0 };
    this.counters = this.limits.map((limit) =>
      Object.assign(this.product.memoryCounter(), {
        rate: this.product.rateOf(limit),
        cost: 1,
        unpaidUs: 0,
        allowed: true,
      }),
    );
  }

  exchange(nowUs: number, message: ledgers.LeaseMessage): ledgers.LeaseAnswer | undefined {
    const { product, ledger, counters } = this;
    const ring = product.memoryRing;
    const place = product.exchange(ledger, counters, counters.length, ring, nowUs, message, this.parameters);
    if (place === product.overtaken) return undefined;
    const elsewhere = product.unitsElsewhere(ledger, place, nowUs);
    return { ...(ledger.holdings[place] as ledgers.Holding), elsewhere };
  }

  charge(nowUs: number, cost: number): boolean {
    const { product, counters } = this;
    for (const counter of counters) {
      counter.cost = cost;
      product.oweWhatIsOut(this.ledger, counter.rate, counter, nowUs);
    }
    return product.chargeAll(counters, counters.length, product.memoryRing, nowUs);
  }
}

/** A node: the record and the cell of `holder.ts`, and what that file says to do with them. */
export class Gateway {
  readonly product: Product;
  readonly name: string;
  holder: holders.Holder;
  cell = 0;
  asked = 0;
  readonly #terms = new Map<number, { undecided: number; refunded: number }>();

  constructor(product: Product, name: string) {
    this.product = product;
    this.name = name;
    this.holder = product.newHolder();
  }

  /** @param blind whether another worker was faster after this one had read the cell */
  spend(nowUs: number, cost: number, blind: boolean): boolean {
    this.asked += cost;
    if (!this.product.isLive(this.holder, nowUs)) return false;
    if (this.cell < cost && !blind) return false;
    this.cell -= cost;
    return this.cell >= 0;
  }

  /** Notes units that another policy may still refuse, before they are spent. @returns their term */
  note(cost: number): number {
    const { termUs } = this.holder;
    const { undecided, refunded } = this.#term(termUs);
    this.#terms.set(termUs, { undecided: undecided + cost, refunded });
    return termUs;
  }

  /** The units of this term are spent for good, or could not be spent. */
  decide(termUs: number, cost: number): void {
    const { undecided, refunded } = this.#term(termUs);
    this.#terms.set(termUs, { undecided: undecided - cost, refunded });
  }

  refund(termUs: number, cost: number): void {
    const { undecided, refunded } = this.#term(termUs);
    this.#terms.set(termUs, { undecided, refunded: refunded + cost });
  }

  takeBackRefunded(nowUs: number): void {
    if (!this.product.isLive(this.holder, nowUs)) return;
    const { undecided, refunded } = this.#term(this.holder.termUs);
    this.cell += refunded;
    this.#terms.set(this.holder.termUs, { undecided: undecided - refunded, refunded: 0 });
  }

  get undecided(): number {
    return this.#term(this.holder.termUs).undecided;
  }

  #term(termUs: number): { undecided: number; refunded: number } {
    return this.#terms.get(termUs) ?? { undecided: 0, refunded: 0 };
  }

  plan(parameters: ledgers.LeaseParameters, nowUs: number): holders.Plan {
    return this.product.plan(this.holder, parameters, this.cell, this.undecided, this.asked, nowUs);
  }

  send(nowUs: number, plan: holders.Plan): ledgers.LeaseMessage {
    this.cell -= plan.back;
    this.product.send(this.holder, plan, this.cell, this.undecided, nowUs);
    return this.message();
  }

  /** @returns the message that waits for its answer */
  message(): ledgers.LeaseMessage {
    const { seq, acknowledged, kept, back, want } = this.holder;
    return { holder: this.name, seq, acknowledged, kept, back, want };
  }

  acceptAnswer(nowUs: number, answer: ledgers.LeaseAnswer): boolean {
    if (!this.product.acceptAnswer(this.holder, answer, nowUs)) return false;
    this.cell = Math.min(Math.max(this.cell, 0), answer.honoured) + answer.grant;
    return true;
  }
}

/** A request that has spent units, while another policy has not decided yet. */
interface Undecided {
  readonly gateway: Gateway;
  readonly cost: number;
  readonly termUs: number;
  /** What the other policy will decide. */
  readonly goesOn: boolean;
}

/** Counts exactly what is spent against one limit. */
export interface Observer {
  /** @returns by how many units this exceeded the limit */
  spend(nowUs: number, cost: number): number;
}

export function observerOf(limit: Limit): Observer {
  if (limit.algorithm === "token-bucket") return new BucketObserver(limit);
  if (limit.algorithm === "fixed-window") return new FixedObserver(limit);
  return new IntervalObserver(limit);
}

/** Checks admitted(t, t+τ) ≤ burst + rate × τ for every interval: a level that drains at the rate never exceeds the burst. */
class BucketObserver implements Observer {
  readonly #limit: Limit;
  /** In units × window, a whole number below 2^53. */
  #level = 0;
  #atUs = 0;

  constructor(limit: Limit) {
    this.#limit = limit;
  }

  spend(nowUs: number, cost: number): number {
    const { quota, windowUs, burst } = this.#limit;
    this.#level = Math.max(0, this.#level - (nowUs - this.#atUs) * quota) + cost * windowUs;
    this.#atUs = nowUs;
    return this.#level / windowUs - burst;
  }
}

class FixedObserver implements Observer {
  readonly #limit: Limit;
  #window = 0;
  #used = 0;

  constructor(limit: Limit) {
    this.#limit = limit;
  }

  spend(nowUs: number, cost: number): number {
    const window = Math.floor(nowUs / this.#limit.windowUs);
    if (window !== this.#window) this.#used = 0;
    this.#window = window;
    this.#used += cost;
    return this.#used - this.#limit.quota;
  }
}

/** Checks that no interval of the window's length has more than the quota. */
class IntervalObserver implements Observer {
  readonly #limit: Limit;
  readonly #times: number[] = [];
  readonly #costs: number[] = [];
  #first = 0;
  #sum = 0;

  constructor(limit: Limit) {
    this.#limit = limit;
  }

  spend(nowUs: number, cost: number): number {
    this.#times.push(nowUs);
    this.#costs.push(cost);
    this.#sum += cost;
    while ((this.#times[this.#first] as number) <= nowUs - this.#limit.windowUs) {
      this.#sum -= this.#costs[this.#first] as number;
      this.#first += 1;
    }
    return this.#sum - this.#limit.quota;
  }
}

interface Letter {
  readonly to: Gateway | undefined;
  readonly message?: ledgers.LeaseMessage;
  readonly answer?: ledgers.LeaseAnswer;
}

interface Node {
  gateway: Gateway;
  readonly aheadUs: number;
  /** The clock's drift in millionths. */
  readonly drift: number;
}

const startUs = 1_700_000_000_000_000;
const mostLetters = 24;
/** Each clock drifts by at most so many millionths either way, half of what `holder.ts` allows for. */
const mostDrift = 450;

export class World {
  readonly #product: Product;
  readonly #random: Random;
  readonly #redis: Redis;
  readonly #nodes: Node[] = [];
  readonly #letters: Letter[] = [];
  #observers: Observer[];
  #undecided: Undecided[] = [];
  #us = 0;
  #lives = 0;
  /** Sums of what was observed. */
  spent = 0;
  leased = 0;
  acknowledged = 0;
  refunded = 0;
  /** The most units over a limit at any time. */
  excess = Number.NEGATIVE_INFINITY;

  constructor(product: Product, limits: readonly Limit[], random: Random) {
    this.#product = product;
    this.#random = random;
    this.#redis = new Redis(product, limits, { horizonUs: 100_000, lifetimeUs: 50_000 + random(400_000) });
    this.#observers = limits.map(observerOf);
    for (let i = 2 + random(3); i > 0; i--) {
      const drift = random(2 * mostDrift + 1) - mostDrift;
      this.#nodes.push({ gateway: this.#gateway(), aheadUs: random(1_000_000_000), drift });
    }
  }

  step(): void {
    const random = this.#random;
    const dice = random(100);
    const node = this.#nodes[random(this.#nodes.length)] as Node;
    if (dice < 18) this.#wait();
    else if (dice < 20) this.#strike(node);
    else if (dice < 50) this.#spend(node, random(3) === 0 ? random(60) : 1);
    else if (dice < 65) this.#send(node);
    else if (dice < 90) this.#deliver();
    else if (dice < 93) this.#sendAgain(node);
    else if (dice < 95) this.#product.giveUp(node.gateway.holder);
    else if (dice < 96) this.#decideAll();
    else if (dice < 99) this.#chargeExactly(random(random(5) === 0 ? 200 : 20));
    else if (random(5) === 0) node.gateway = this.#gateway();
  }

  /** Makes Redis forget only the ledger. @returns how many units were out as far as it knew, spent or not */
  loseLedger(): number {
    const { holdings, count } = this.#redis.ledger;
    this.#redis.ledger = { holdings: [], count: 0 };
    return holdings.slice(0, count).reduce((sum, { outstanding }) => sum + outstanding, 0);
  }

  /** Makes Redis forget everything, so that limits start anew. @returns how many units gateways can still spend */
  loseAll(): number {
    this.#redis.forget();
    this.#observers = this.#redis.limits.map(observerOf);
    let units = 0;
    for (const node of this.#nodes) {
      const { holder, cell } = node.gateway;
      const answer = this.#letters.find(
        (letter) => letter.to === node.gateway && holder.waiting === 1 && letter.answer?.seq === holder.seq,
      )?.answer;
      // An answer that is under way brings units, and extends the life of the units that are kept.
      if (answer !== undefined) units += Math.max(cell, 0) + answer.grant;
      else if (this.#product.isLive(holder, this.#clock(node))) units += Math.max(cell, 0);
    }
    return units;
  }

  /** An operator resets the counter, and gateways forget their refusals and try again. @returns as `loseAll` */
  reset(): number {
    const units = this.loseAll();
    for (const { gateway } of this.#nodes) this.#product.forgetRefusal(gateway.holder);
    return units;
  }

  #gateway(): Gateway {
    this.#lives += 1;
    return new Gateway(this.#product, `life-${this.#lives}`);
  }

  #clock({ aheadUs, drift }: Node): number {
    return aheadUs + this.#us + Math.floor((this.#us * drift) / 1_000_000);
  }

  #wait(): void {
    const random = this.#random;
    const most = [1, 300, 3_000, 30_000, 60_000][random(5)] as number;
    this.#us += random(30) === 0 ? random(1_000_000) : random(most);
  }

  /** Plays the worst moment: everything is spent right before it expires, letters arrive right after, and then all spend. */
  #strike(node: Node): void {
    const random = this.#random;
    const leftUs = node.gateway.holder.deadlineUs - this.#clock(node);
    if (leftUs <= 1) return;
    if (random(2) === 0) this.#send(node);
    this.#us += leftUs - 1;
    if (!this.#product.isLive(node.gateway.holder, this.#clock(node))) return;
    if (random(4) > 0) this.#spend(node, Math.max(node.gateway.cell, 0));
    this.#us += random(random(2) === 0 ? 5 : 5_000);
    for (let letters = random(4); letters > 0; letters--) this.#deliver();
    if (random(2) === 0) this.#chargeExactly(200);
    for (let letters = random(4); letters > 0; letters--) this.#deliver();
    if (random(2) === 0) this.#decideAll();
    if (random(2) === 0) node.gateway.takeBackRefunded(this.#clock(node));
    for (const other of this.#nodes) this.#spend(other, 200);
    if (random(2) === 0) this.#chargeExactly(200);
  }

  #spend(node: Node, most: number): void {
    const random = this.#random;
    const { gateway } = node;
    let times = most;
    const cost = random(4) === 0 ? 1 + random(5) : 1;
    for (; times > 0; times--) {
      const isUndecided = random(10) === 0;
      const termUs = isUndecided ? gateway.note(cost) : 0;
      // A worker reports to Redis between the two steps of another one.
      if (isUndecided && random(10) === 0) this.#send(node);
      if (!gateway.spend(this.#clock(node), cost, random(20) === 0)) {
        if (isUndecided) gateway.decide(termUs, cost);
        continue;
      }
      const goesOn = !isUndecided || random(2) === 0;
      if (isUndecided) this.#undecided.push({ gateway, cost, termUs, goesOn });
      // Its worker was killed: nobody decides it.
      if (this.#undecided.length > mostLetters) this.#undecided.shift();
      if (!goesOn) continue;
      this.leased += cost;
      this.#observe(cost);
    }
  }

  /** Other policies decide: units of refused requests go back to the lease, if that is still in the same term. */
  #decideAll(): void {
    for (const { gateway, cost, termUs, goesOn } of this.#undecided.splice(0)) {
      if (goesOn) gateway.decide(termUs, cost);
      else gateway.refund(termUs, cost);
      if (!goesOn) this.refunded += cost;
    }
  }

  #chargeExactly(most: number): void {
    let times = most;
    while (times > 0 && this.#redis.charge(startUs + this.#us, 1)) {
      this.#observe(1);
      times -= 1;
    }
  }

  #observe(cost: number): void {
    this.spent += cost;
    for (const observer of this.#observers) {
      this.excess = Math.max(this.excess, observer.spend(startUs + this.#us, cost));
    }
  }

  #send(node: Node): void {
    const random = this.#random;
    const { gateway } = node;
    if (gateway.holder.waiting === 1) return;
    const nowUs = this.#clock(node);
    if (random(3) > 0) gateway.takeBackRefunded(nowUs);
    let plan = gateway.plan(this.#redis.parameters, nowUs);
    // The bound must not depend on good plans.
    if (random(3) > 0) {
      const back = random(2) === 0 ? random(Math.max(gateway.cell, 0) + 8) : 0;
      plan = { exchanges: true, back, want: random(2) === 0 ? random(200) : random(5) };
    }
    if (plan.exchanges) this.#post({ to: undefined, message: gateway.send(nowUs, plan) });
  }

  #sendAgain({ gateway }: Node): void {
    if (gateway.holder.waiting === 1) this.#post({ to: undefined, message: gateway.message() });
  }

  #post(letter: Letter): void {
    if (this.#letters.length === mostLetters) this.#letters.splice(this.#random(mostLetters), 1);
    this.#letters.push(letter);
  }

  /** Delivers any letter, mostly a new one; now and then it arrives again later, or is lost. */
  #deliver(): void {
    const random = this.#random;
    const { length } = this.#letters;
    if (length === 0) return;
    const at = random(3) > 0 ? length - 1 : random(length);
    const letter = this.#letters[at] as Letter;
    if (random(8) > 0) this.#letters.splice(at, 1);
    if (random(12) === 0) return;
    if (letter.message !== undefined) {
      const { message } = letter;
      const answer = this.#redis.exchange(startUs + this.#us, message);
      const node = this.#nodes.find(({ gateway }) => gateway.name === message.holder);
      if (answer !== undefined && node !== undefined) this.#post({ to: node.gateway, answer });
      return;
    }
    const node = this.#nodes.find(({ gateway }) => gateway === letter.to);
    if (node?.gateway.acceptAnswer(this.#clock(node), letter.answer as ledgers.LeaseAnswer)) this.acknowledged += 1;
  }
}
