// The course of one world on real nginxes and a real Redis, whose clock stands still until an event of the world moves it. So the moment of
// every decision is known to the µs, and pauses take no time.
//
// Requests that nginx has wait (maxDelay) wait by a clock that nobody sets. If requests hold slots, the order of their ends matters: the world's time
// then goes on no faster than that clock while somebody waits. Otherwise the next events come meanwhile.

import { setTimeout as sleep } from "node:timers/promises";
import { lineOfConsumer, lineOfGoneConsumer } from "../../../limiter/src/protocol/consumer-lines.ts";
import type { Answer as HttpAnswer } from "../../fixtures/clients/requests.ts";
import type { SetClock } from "../../fixtures/servers/set-clock.ts";
import { bodyOf } from "../players.ts";
import type { Answer, Ask, AskAnswer, Consumer, PolicyDocument, World, WorldEvent } from "../world.ts";
import type { RealGateway } from "./gateway.ts";
import { type Arrival, idHeader, type Upstream } from "./upstream.ts";

export interface Servers {
  /** Of nginx. */
  readonly clock: SetClock;
  readonly redisClock: SetClock;
  readonly gateways: readonly RealGateway[];
  readonly upstream: Upstream;
  publish(policies: readonly PolicyDocument[]): Promise<void>;
  /** @param lines of the push protocol @param isAll whether there are no other consumers */
  tellOfConsumers(lines: readonly string[], isAll?: boolean): Promise<void>;
  /** Returns when this worker and Redis have each done so often what they were asked for before. */
  turns(gateway: RealGateway, worker: number, count: number): Promise<void>;
}

/** Who has neither an answer nor reached the service by then may be waiting. */
const mayWaitAfterMs = 20;
/** So often a worker and Redis may have to do something in turn until a request is decided. */
const turnsUntilDecided = 6;
/** The same until the slots of a request that has ended are free. */
const turnsUntilFree = 3;
/** How long before the world's first moment it is prepared. */
const beginsUs = 1_000_000;
/** How much longer a request may take on a machine that is busy with others, beside the time for which this process stands still. */
const busyMs = 2_000;

/** A request that has not ended. */
interface Open {
  readonly ask: Ask;
  readonly askedUs: number;
  readonly sentAtMs: number;
  /** How long this process had stood still until then. */
  readonly stalledMs: number;
  doubtUs: number;
  arrival: Arrival | undefined;
  /** It has reached the service, or has its answer. */
  decided: Promise<unknown>;
  isDecided: boolean;
  /** Its answer is there. */
  ended: Promise<void>;
}

export class Course {
  readonly #world: World;
  readonly #app: string;
  readonly #servers: Servers;
  readonly #hasSlots: boolean;
  readonly #answers: Answer[];
  readonly #policies = new Map<string, PolicyDocument>();
  readonly #consumers = new Map<string, Consumer>();
  /** How much time has passed since the world began, and what clocks show. They stand apart from each other after a step. */
  #elapsedUs = 0;
  #wallUs: number;
  readonly #open = new Set<Open>();

  /** @param app a name that no other world has: its counters are its own */
  constructor(world: World, app: string, servers: Servers) {
    this.#world = world;
    this.#app = app;
    this.#servers = servers;
    this.#hasSlots = world.events.some((event) => event.do === "ask" && event.serviceMs > 0);
    this.#answers = world.events.map(() => ({}));
    this.#wallUs = world.startMs * 1_000;
    for (const policy of world.policies) this.#policies.set(policy.name, policy);
    for (const consumer of world.consumers ?? []) this.#consumers.set(consumer.id, consumer);
  }

  /**
   * Returns when the servers are free for another world.
   *
   * @returns the answers, which may take longer: requests may wait still
   */
  async play(): Promise<{ readonly answers: Promise<readonly Answer[]> }> {
    // Workers look for consumers when time has passed.
    this.#setClocks(this.#wallUs - beginsUs);
    await this.#publish();
    await this.#tellOfAllConsumers();
    this.#setClocks(this.#wallUs);
    for (const [index, event] of this.#world.events.entries()) {
      const dueUs = this.#elapsedUs + event.afterMs * 1_000;
      if (this.#hasSlots) await this.#endUntil(dueUs);
      this.#passTo(dueUs);
      await this.#play(event, index);
    }
    if (this.#hasSlots) await this.#endUntil(Number.POSITIVE_INFINITY);
    const ended = Promise.all([...this.#open].map((one) => one.ended));
    return { answers: ended.then(() => this.#answers) };
  }

  #passTo(us: number): void {
    if (us === this.#elapsedUs) return;
    this.#wallUs += us - this.#elapsedUs;
    this.#elapsedUs = us;
    this.#setClocks(this.#wallUs);
  }

  #setClocks(us: number): void {
    const { clock, redisClock } = this.#servers;
    clock.set(us / 1e6);
    redisClock.set((us + this.#world.redisAheadUs) / 1e6);
  }

  async #play(event: WorldEvent, index: number): Promise<void> {
    const { gateways, tellOfConsumers } = this.#servers;
    switch (event.do) {
      case "ask":
        return this.#ask(event, index);
      case "check": {
        const gateway = gateways[event.gateway - 1] as RealGateway;
        const { status, headers, body } = await gateway.check(event.worker, bodyOf(event));
        this.#answers[index] = { status, headers, marks: "", body, waitedUs: 0 };
        return;
      }
      case "step":
        this.#wallUs += event.byMs * 1_000;
        return this.#setClocks(this.#wallUs);
      case "put":
        this.#policies.set(event.policy.name, event.policy);
        return this.#publish();
      case "delete":
        this.#policies.delete(event.policy);
        return this.#publish();
      case "put-consumer":
        this.#consumers.set(event.consumer.id, event.consumer);
        return tellOfConsumers([this.#lineOf(event.consumer)]);
      case "reload":
      case "restart":
        await (gateways[event.gateway - 1] as RealGateway)[event.do]();
        await this.#publish();
        return this.#tellOfAllConsumers();
      case "delete-consumer":
        this.#consumers.delete(event.id);
        return tellOfConsumers([lineOfGoneConsumer(this.#app, event.id)]);
      default:
        this.#answers[index] = {
          limits: await (gateways[event.gateway - 1] as RealGateway).order(this.#app, event),
        };
    }
  }

  #tellOfAllConsumers(): Promise<void> {
    return this.#servers.tellOfConsumers(
      [...this.#consumers.values()].map((one) => this.#lineOf(one)),
      true,
    );
  }

  #publish(): Promise<void> {
    return this.#servers.publish([...this.#policies.values()]);
  }

  #lineOf({ id, plan, overrides }: Consumer): string {
    return lineOfConsumer(this.#app, id, plan, overrides && JSON.stringify(overrides));
  }

  /** Returns when the request is decided. */
  async #ask(ask: Ask, index: number): Promise<void> {
    const { upstream, gateways, turns } = this.#servers;
    const gateway = gateways[ask.gateway - 1] as RealGateway;
    const id = `${this.#app}-${index}`;
    const open: Open = {
      ask,
      askedUs: this.#elapsedUs,
      sentAtMs: performance.now(),
      stalledMs: upstream.stalledMs,
      doubtUs: 0,
      arrival: undefined,
      decided: Promise.resolve(),
      isDecided: false,
      ended: Promise.resolve(),
    };
    this.#open.add(open);
    const arrived = new Promise<void>((resolve) => {
      upstream.expect(id, (arrival) => {
        open.arrival = arrival;
        open.doubtUs = Math.ceil((busyMs + upstream.stalledMs - open.stalledMs) * 1_000);
        if (ask.serviceMs === 0) respond(ask, arrival);
        resolve();
      });
    });
    const answered = gateway.ask(ask.worker, ask.path, { "x-real-ip": ask.address, [idHeader]: id, ...ask.headers });
    open.ended = answered.then((answer) => {
      upstream.forget(id);
      this.#open.delete(open);
      this.#answers[index] = answerOf(answer, open);
    });
    open.decided = Promise.race([ask.serviceMs === 0 ? open.ended : arrived, open.ended]).then(() => {
      open.isDecided = true;
    });
    // A failure is thrown by whoever waits for its end.
    open.ended.catch(() => undefined);
    await Promise.race([open.decided, pause(mayWaitAfterMs)]);
    if (!open.isDecided) {
      await Promise.race([open.decided, turns(gateway, ask.worker, turnsUntilDecided)]);
    } else if (this.#hasSlots && !this.#open.has(open)) {
      await turns(gateway, ask.worker, turnsUntilFree);
    }
  }

  /** Lets the service answer, one after the other, the requests that are due until then. */
  async #endUntil(dueUs: number): Promise<void> {
    for (const one of this.#open) {
      const leftMs = one.sentAtMs + (dueUs - one.askedUs) / 1_000 - performance.now();
      if (dueUs === Number.POSITIVE_INFINITY) await one.decided;
      else if (leftMs > 0 && !one.isDecided) await Promise.race([one.decided, pause(leftMs)]);
    }
    for (;;) {
      const [first] = [...this.#open].filter((one) => endsUs(one) <= dueUs).sort((a, b) => endsUs(a) - endsUs(b));
      if (first?.arrival === undefined) return;
      const { ask, arrival, ended } = first;
      this.#passTo(Math.max(endsUs(first), this.#elapsedUs));
      respond(ask, arrival);
      await ended;
      const { gateways, turns } = this.#servers;
      await turns(gateways[ask.gateway - 1] as RealGateway, ask.worker, turnsUntilFree);
    }
  }
}

function respond({ bytes }: Ask, { response }: Arrival): void {
  response.end(bytes === undefined ? "done" : "x".repeat(bytes));
}

/** How long the request waited in the gateway, and everything else that it took until the service had it. */
function waitedUs({ sentAtMs, arrival }: Open): number {
  return arrival === undefined ? Number.POSITIVE_INFINITY : Math.ceil((arrival.atMs - sentAtMs) * 1_000);
}

/** When its service is to answer. Gateways charge responses by whole ms, which Redis is to read, too. */
function endsUs(open: Open): number {
  const us = open.askedUs + waitedUs(open) + open.ask.serviceMs * 1_000;
  return open.ask.bytes === undefined ? us : Math.floor(us / 1_000) * 1_000;
}

function answerOf({ status, headers, body }: HttpAnswer, open: Open): AskAnswer {
  const { arrival, doubtUs } = open;
  if (arrival === undefined) return { status, headers, marks: "", body, waitedUs: 0 };
  return { status, headers, marks: marksOf(arrival, open.ask), body, waitedUs: waitedUs(open), doubtUs };
}

/** What nginx itself says to a service, and the player to nginx. */
const plain = new Set(["host", "connection", "x-forwarded-for", "x-real-ip", idHeader]);

function marksOf({ headers }: Arrival, ask: Ask): string {
  return Object.entries(headers)
    .filter(([name]) => !plain.has(name) && !Object.hasOwn(ask.headers, name))
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n");
}

/** Nobody may wait for its end any more: then it does not keep the process alive. */
function pause(ms: number): Promise<void> {
  return sleep(ms, undefined, { ref: false });
}
