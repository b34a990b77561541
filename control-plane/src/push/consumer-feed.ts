// Brings every connected gateway the changes of consumers. It keeps none of them in memory but the last few messages: it reads what a
// gateway lacks from the database, some at a time. One message is on its way to a gateway until it answers, so that a slow one holds up
// nobody, and one that does not read costs the memory of one message. A gateway that holds nothing that is known here begins anew.

import { lineOfConsumer, lineOfGoneConsumer } from "@sluice/limiter/protocol/consumer-lines.ts";
import { type ConsumersHead, consumersSince, type HeldConsumers } from "@sluice/limiter/protocol/push-messages.ts";
import type { ConsumerChanges, ConsumersNewest, ConsumersPosition } from "../storage/consumer-changes.ts";
import { isOfTerm } from "../storage/terms.ts";
import type { ConsumerCounts } from "../storage/usage.ts";
import { canonicalZones } from "../zones/policy-zones.ts";
import type { Fleet } from "./fleet.ts";
import type { GatewayLink } from "./gateway-link.ts";

/** A message has so many changes at most: a gateway stores them in some milliseconds. */
const changesAtOnce = 1_000;
/** Overrides may be long. */
const mostTextCharacters = 262_144;
/** Gateways that start together ask for the same: the message that was made for one is sent to the others. */
const mostKept = 8;
const retryMs = 1_000;
/** A gateway that asks for what comes after other positions, again and again, gets it for one of them in this time. */
const askEveryMs = 1_000;

export interface ConsumerFeedDependencies {
  readonly fleet: Fleet;
  /** Reads where the changes are. */
  readPosition(): Promise<ConsumersNewest>;
  /** Reads some changes after a position. */
  readChanges(after: number, limit: number): Promise<ConsumerChanges>;
  /** Reads how many consumers apps have. @param apps only these; undefined: all */
  readCounts(apps: readonly string[] | undefined): Promise<ConsumerCounts>;
  onSent(bytes: number): void;
  onError(error: unknown): void;
}

/** What is known of a gateway that takes consumers. */
interface Taker {
  readonly gateway: string;
  held: ConsumersPosition;
  /** Where the message on its way takes it. */
  underWay: ConsumersPosition | undefined;
  isReading: boolean;
  /** The last message is still in this process. */
  isUnread: boolean;
  /** It has asked for what comes after a position to which no message took it. */
  asksAnew: boolean;
  /** When it got something for the last such position. */
  askedAtMs: number;
  askTimer: NodeJS.Timeout | undefined;
  /** It knows how many consumers every app has. */
  isCounted: boolean;
  /** It has begun anew when the changes were here, and has not got everything yet: it lacks no deletion up to here. Otherwise 0. */
  filledSince: number;
}

interface Message {
  /** In bytes, so that all gateways that get it share them. */
  readonly text: Buffer;
  readonly to: ConsumersPosition;
  readonly isFresh: boolean;
  readonly isLast: boolean;
  /** The position at which the changes were read. */
  readonly readAt: number;
  readonly newest: ConsumersNewest;
}

export class ConsumerFeed {
  readonly #dependencies: ConsumerFeedDependencies;
  readonly #takers = new Map<GatewayLink, Taker>();
  readonly #messages = new Map<string, Promise<Message>>();
  #newest: ConsumersNewest = { epoch: "", position: 0, terms: [] };
  /** What all gateways were looked through for. Undefined: something failed since. */
  #lookedFor: ConsumersPosition | undefined;
  /** Those that have joined since the last look. */
  readonly #joined = new Set<GatewayLink>();
  #round: Promise<void> | undefined;
  #isWanted = false;
  #retry: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(dependencies: ConsumerFeedDependencies) {
    this.#dependencies = dependencies;
  }

  /** @throws when the database cannot be read */
  async start(): Promise<void> {
    this.#newest = await this.#dependencies.readPosition();
  }

  /** Where the changes were when they were read last. */
  get newest(): ConsumersPosition {
    return this.#newest;
  }

  /** Called when a gateway says hello. @param held undefined: it takes no consumers */
  join(gateway: string, link: GatewayLink, protocol: number, held: HeldConsumers | undefined): void {
    if (protocol < consumersSince || held === undefined) return;
    this.#takers.set(link, {
      gateway,
      held,
      underWay: undefined,
      isReading: false,
      isUnread: false,
      asksAnew: false,
      askedAtMs: Number.NEGATIVE_INFINITY,
      askTimer: undefined,
      isCounted: false,
      filledSince: 0,
    });
    this.#joined.add(link);
    this.#dependencies.fleet.reportConsumers(gateway, link, held);
    // What it holds may be newer than what was read here last.
    this.noteChanged();
  }

  leave(link: GatewayLink): void {
    clearTimeout(this.#takers.get(link)?.askTimer);
    this.#takers.delete(link);
    this.#joined.delete(link);
  }

  /** Called with a gateway's answer, or when it asks for what comes after another position. */
  answered(link: GatewayLink, held: HeldConsumers): void {
    const taker = this.#takers.get(link);
    if (taker === undefined) return;
    taker.asksAnew ||= taker.underWay === undefined || !isSame(taker.underWay, held);
    taker.held = held;
    taker.underWay = undefined;
    this.#dependencies.fleet.reportConsumers(taker.gateway, link, held);
    void this.#send(link, taker);
  }

  /** Sends what is new, soon. */
  noteChanged(): void {
    void this.publish();
  }

  /** Reads where the changes are, and sends every gateway what it lacks. Never rejects: a failed read is repeated. */
  publish(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    this.#isWanted = true;
    this.#round ??= this.#work().finally(() => {
      this.#round = undefined;
    });
    return this.#round;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#retry);
    await this.#round;
    await Promise.allSettled(this.#messages.values());
  }

  async #work(): Promise<void> {
    while (this.#isWanted && !this.#stopped) {
      this.#isWanted = false;
      try {
        this.#note(await this.#dependencies.readPosition());
        this.#sendToThoseBehind();
      } catch (error) {
        this.#failed(error);
      }
    }
  }

  /** If there is nothing new, only those that have just joined may lack something: one that joins costs no look at all the others. */
  #sendToThoseBehind(): void {
    const isNew = this.#lookedFor !== this.#newest;
    this.#lookedFor = this.#newest;
    for (const link of isNew ? this.#takers.keys() : this.#joined) {
      const taker = this.#takers.get(link);
      if (taker !== undefined) void this.#send(link, taker);
    }
    this.#joined.clear();
  }

  #failed(error: unknown): void {
    this.#lookedFor = undefined;
    if (this.#stopped) return;
    this.#dependencies.onError(error);
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.noteChanged(), retryMs).unref();
  }

  #note(newest: ConsumersNewest): void {
    const { epoch, position } = this.#newest;
    if (newest.epoch === epoch && newest.position <= position) return;
    if (newest.epoch !== epoch) this.#messages.clear();
    this.#newest = newest;
    this.#dependencies.fleet.emit("consumers");
  }

  /** Sends the gateway the next changes that it lacks, if there are any and no answer is due. */
  async #send(link: GatewayLink, taker: Taker): Promise<void> {
    if (taker.isReading || taker.isUnread || taker.underWay !== undefined || this.#stopped) return;
    if (isSame(taker.held, this.#newest) && taker.isCounted) return;
    if (taker.asksAnew) {
      const waitMs = taker.askedAtMs + askEveryMs - performance.now();
      if (waitMs > 0) {
        taker.askTimer ??= setTimeout(() => {
          taker.askTimer = undefined;
          void this.#send(link, taker);
        }, waitMs).unref();
        return;
      }
      taker.asksAnew = false;
      taker.askedAtMs = performance.now();
    }
    taker.isReading = true;
    try {
      const message = await this.#messageAfter(taker);
      if (this.#takers.get(link) !== taker) return;
      this.#note(message.newest);
      taker.underWay = message.to;
      taker.isCounted = true;
      if (message.isFresh) taker.filledSince = message.readAt;
      if (message.isLast) taker.filledSince = 0;
      taker.isUnread = true;
      link.sendText(message.text, () => {
        taker.isUnread = false;
        void this.#send(link, taker);
      });
      this.#dependencies.onSent(message.text.length);
    } catch (error) {
      this.#failed(error);
    } finally {
      taker.isReading = false;
    }
  }

  #messageAfter({ held, filledSince, isCounted }: Taker): Promise<Message> {
    // Other positions are of a database that has lost its end since.
    const { terms, position: newest } = this.#newest;
    const isKnown = held.position <= newest && isOfTerm(terms, held.epoch, "position", held.position);
    const after = isKnown ? held.position : -1;
    const key = `${after} ${filledSince} ${isCounted} ${this.#newest.position}`;
    const kept = this.#messages.get(key);
    if (kept !== undefined) return kept;
    const message = this.#read(after, filledSince, isCounted);
    if (this.#messages.size >= mostKept) {
      const [oldest] = this.#messages.keys();
      if (oldest !== undefined) this.#messages.delete(oldest);
    }
    this.#messages.set(key, message);
    message.catch(() => this.#messages.delete(key));
    return message;
  }

  /** @param after -1: the gateway begins anew */
  async #read(after: number, filledSince: number, isCounted: boolean): Promise<Message> {
    let from = Math.max(after, 0);
    let read = await this.#dependencies.readChanges(from, changesAtOnce);
    // Deletions after what it holds may be forgotten.
    const isFresh = after < 0 || (from > 0 && read.pruned > Math.max(from, filledSince));
    if (isFresh && from > 0) {
      from = 0;
      read = await this.#dependencies.readChanges(from, changesAtOnce);
    }
    const { newest, changes } = read;
    let lines = "";
    let count = 0;
    for (const { app, id, terms } of changes) {
      lines +=
        terms === undefined
          ? lineOfGoneConsumer(app, id)
          : lineOfConsumer(app, id, terms.plan, terms.overrides === null ? undefined : canonicalZones(terms.overrides));
      count += 1;
      if (lines.length > mostTextCharacters) break;
    }
    const isOfAll = isFresh || !isCounted;
    const apps = isOfAll ? undefined : [...new Set(changes.map(({ app }) => app))];
    const counted = await this.#dependencies.readCounts(apps);
    const counts = {
      ...Object.fromEntries((apps ?? []).map((app) => [app, 0])),
      ...Object.fromEntries(counted.counts),
    };
    // If the counts are of a later position, more comes at once.
    const isLast = count === changes.length && changes.length < changesAtOnce && isSame(counted, newest);
    const to = isLast ? newest.position : (changes[count - 1]?.position ?? newest.position);
    const head: ConsumersHead = {
      type: "consumers",
      epoch: newest.epoch,
      from,
      to,
      ...(isFresh ? { fresh: true } : {}),
      more: !isLast,
      counts,
      ...(isOfAll ? { all: true } : {}),
    };
    return {
      text: Buffer.from(`${JSON.stringify(head)}\n${lines}`),
      to: { epoch: newest.epoch, position: to },
      isFresh,
      isLast,
      readAt: newest.position,
      newest: counted.epoch === newest.epoch ? { ...newest, position: counted.position } : newest,
    };
  }
}

function isSame(one: ConsumersPosition, other: ConsumersPosition): boolean {
  return one.epoch === other.epoch && one.position === other.position;
}
