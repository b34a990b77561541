// Keeps the fleet informed about gateways that are connected to other control planes of the same database, and others about
// ours. It also notices what other control planes have changed.

import { setImmediate } from "node:timers/promises";
import { pauses } from "../limits/pauses.ts";
import {
  announce,
  countRecords,
  forgetGonePeers,
  readPeers,
  readRecordIds,
  readRecordsAfter,
  withdraw,
} from "../storage/peers.ts";
import type { Database } from "../storage/tables.ts";
import type { ConsumerFeed } from "./consumer-feed.ts";
import type { Fleet, Gateway } from "./fleet.ts";
import type { Publisher } from "./publisher.ts";

/** A change elsewhere is pushed here within this time, and an order of another control plane is carried out. */
const roundMs = 250;
/** Even if nothing has changed. */
const announceEveryMs = 1_000;
/** Counters change all the time: they are told this often. */
const countersEveryMs = 5_000;
/**
 * So much is told in a round, and the rest in the next ones: the records of two thousand gateways that join together, or a small part of
 * what as many that have all kinds of problems say.
 */
const mostCharactersInRound = 1_048_576;
const forgetEveryMs = 60_000;
/**
 * After this long without the database, our gateways are to go to another control plane: after 10 seconds, others do not count
 * them any more.
 */
const unheardAfterMs = 8_000;
const watchEveryMs = 500;

export interface PeersDependencies {
  readonly database: Database;
  readonly fleet: Fleet;
  readonly publisher: Publisher;
  readonly consumerFeed: ConsumerFeed;
  /** The id of this control plane. */
  readonly id: string;
  /** Called when another control plane has an order for this one. */
  onAsked(): void;
  /** Called with the number of control planes that run, this one included. */
  onCount(controlPlanes: number): void;
  /** Called once when this control plane has been cut off from the database for 8 seconds, if others ran before. */
  onUnheard(): void;
  onError(error: unknown): void;
}

/** What other control planes were told of a gateway. */
interface Told {
  /** Undefined: it is not known what they know of it. */
  readonly gateway: Gateway | undefined;
  readonly atMs: number;
}

/** What another control plane has told of its gateways. */
interface Known {
  readonly version: number;
  readonly gateways: ReadonlyMap<string, Gateway>;
}

export class Peers {
  readonly #dependencies: PeersDependencies;
  readonly #id: string;
  /** The number of orders for this control plane, as last read. */
  #asked = 0;
  #version = 0;
  /** What was last announced, by gateway. */
  readonly #told = new Map<string, Told>();
  #toldAtMs = Number.NEGATIVE_INFINITY;
  #forgotAtMs = performance.now();
  #known = new Map<string, Known>();
  /** Who told us of a gateway last, by the gateway's id: one that changes its control plane may be told of by both. */
  #whose = new Map<string, string>();
  /** When the database last heard of this control plane. */
  #heardAtMs = performance.now();
  #othersRun = false;
  #isUnheard = false;
  #watch: NodeJS.Timeout | undefined;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  #publication: Promise<void> | undefined;
  #stopped = false;
  #failing = false;

  constructor(dependencies: PeersDependencies) {
    this.#dependencies = dependencies;
    this.#id = dependencies.id;
  }

  /** Says that this control plane runs, and learns of the others, before it serves anybody. */
  async join(): Promise<void> {
    await this.#runRound();
  }

  start(): void {
    // A round may hang for as long as the database does.
    this.#watch = setInterval(() => this.#noteSilence(), watchEveryMs).unref();
    this.#planRound();
  }

  #planRound(): void {
    this.#timer = setTimeout(() => {
      this.#round = this.#runRound().finally(() => {
        this.#round = undefined;
        if (!this.#stopped) this.#planRound();
      });
    }, roundMs);
    this.#timer.unref();
  }

  #noteSilence(): void {
    if (this.#isUnheard || !this.#othersRun || performance.now() - this.#heardAtMs < unheardAfterMs) return;
    this.#isUnheard = true;
    this.#dependencies.onUnheard();
  }

  /** Our gateways still count for some seconds at other control planes, or until one of these has them. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    clearInterval(this.#watch);
    await this.#round;
    await this.#publication;
    await withdraw(this.#dependencies.database, this.#id).catch(() => undefined);
  }

  async #runRound(): Promise<void> {
    const { database, publisher } = this.#dependencies;
    try {
      // With changes all the time, a publication may take long, and this control plane must be heard of meanwhile.
      this.#publication ??= publisher
        .publishIfBehind()
        .catch((error: unknown) => this.#noteFailure(error))
        .finally(() => {
          this.#publication = undefined;
        });
      this.#dependencies.consumerFeed.noteChanged();
      await this.#announce();
      await this.#read();
      if (performance.now() - this.#forgotAtMs > forgetEveryMs) {
        this.#forgotAtMs = performance.now();
        await forgetGonePeers(database);
      }
      this.#failing = false;
    } catch (error) {
      this.#noteFailure(error);
    }
  }

  /** Reports the first of several. */
  #noteFailure(error: unknown): void {
    if (!this.#failing) this.#dependencies.onError(error);
    this.#failing = true;
  }

  async #announce(): Promise<void> {
    const nowMs = performance.now();
    const here = this.#dependencies.fleet.connectedHere();
    const ids = new Set(here.map(({ id }) => id));
    const left = [...this.#told.keys()].filter((gateway) => !ids.has(gateway));
    const told = new Map<string, Told>();
    const changed: { gateway: string; record: string }[] = [];
    const pause = pauses(setImmediate);
    let characters = 0;
    for (const gateway of this.#due(here, nowMs)) {
      const record = JSON.stringify(gateway);
      characters += record.length;
      if (changed.length > 0 && characters > mostCharactersInRound) break;
      changed.push({ gateway: gateway.id, record });
      told.set(gateway.id, { gateway, atMs: nowMs });
      await pause();
    }
    if (changed.length === 0 && left.length === 0 && nowMs - this.#toldAtMs < announceEveryMs) return;
    if (changed.length > 0 || left.length > 0) this.#version += 1;
    try {
      await announce(this.#dependencies.database, { id: this.#id, version: this.#version }, changed, left);
    } catch (error) {
      // Everything is told again, and whoever leaves meanwhile has left for others, too.
      for (const id of [...this.#told.keys(), ...told.keys()]) this.#told.set(id, { gateway: undefined, atMs: 0 });
      throw error;
    }
    for (const gateway of left) this.#told.delete(gateway);
    for (const [id, one] of told) this.#told.set(id, one);
    this.#toldAtMs = nowMs;
  }

  /** Returns the gateways of which there is something to tell: first those of which nothing was told, then those that wait the longest. */
  #due(here: readonly Gateway[], nowMs: number): Gateway[] {
    const toldAtMs = ({ id }: Gateway) => this.#told.get(id)?.atMs ?? 0;
    return here
      .filter((gateway) => {
        const told = this.#told.get(gateway.id);
        if (told?.gateway === undefined || differs(told.gateway, gateway)) return true;
        return told.gateway.counters !== gateway.counters && nowMs - told.atMs > countersEveryMs;
      })
      .sort((one, other) => toldAtMs(one) - toldAtMs(other));
  }

  async #read(): Promise<void> {
    const { database, fleet, onAsked, onCount } = this.#dependencies;
    const all = await readPeers(database);
    const asked = all.find(({ id }) => id === this.#id)?.asked ?? 0;
    if (asked !== this.#asked) onAsked();
    this.#asked = asked;
    this.#heardAtMs = performance.now();
    this.#isUnheard = false;
    const peers = all.filter(({ id }) => id !== this.#id);
    const running = peers.filter(({ runs }) => runs).length;
    this.#othersRun = running > 0;
    onCount(1 + running);
    const known = new Map<string, Known>();
    let changed = peers.length !== this.#known.size;
    for (const { id, version } of peers) {
      const before = this.#known.get(id);
      if (before?.version === version) {
        known.set(id, before);
        continue;
      }
      known.set(id, { version, gateways: await this.#gatewaysOf(id, before) });
      changed = true;
    }
    if (!changed) return;
    const former = this.#known;
    this.#known = known;
    fleet.setElsewhere(this.#merged(former));
  }

  /** Reads what a control plane has told since it was read before. */
  async #gatewaysOf(peer: string, before: Known | undefined): Promise<ReadonlyMap<string, Gateway>> {
    const { database } = this.#dependencies;
    const gateways = new Map(before?.gateways);
    const pause = pauses(setImmediate);
    let after = { version: (before?.version ?? 0) + 1, gateway: "" };
    for (;;) {
      const records = await readRecordsAfter(database, peer, after);
      for (const { gateway, record } of records) {
        gateways.set(gateway, JSON.parse(record) as Gateway);
        await pause();
      }
      const last = records.at(-1);
      if (last === undefined) break;
      after = last;
    }
    // All that are there are known: if there are fewer, some have left.
    if ((await countRecords(database, peer)) !== gateways.size) {
      const ids = new Set(await readRecordIds(database, peer));
      for (const id of gateways.keys()) if (!ids.has(id)) gateways.delete(id);
    }
    return gateways;
  }

  /** Returns each gateway of other control planes once: as the one says to which it came last. */
  #merged(former: ReadonlyMap<string, Known>): Gateway[] {
    const merged = new Map<string, { gateway: Gateway; peer: string; rank: number }>();
    for (const [peer, { gateways }] of this.#known) {
      const before = former.get(peer)?.gateways;
      for (const gateway of gateways.values()) {
        const rank = before?.has(gateway.id) !== true ? 2 : this.#whose.get(gateway.id) === peer ? 1 : 0;
        if (rank >= (merged.get(gateway.id)?.rank ?? 0)) merged.set(gateway.id, { gateway, peer, rank });
      }
    }
    this.#whose = new Map([...merged].map(([id, { peer }]) => [id, peer]));
    return [...merged.values()].map(({ gateway }) => gateway);
  }
}

/** Compares all but counters. What a gateway has reported is replaced as a whole, and only if it has changed. */
function differs({ counters: _, ...one }: Gateway, other: Gateway): boolean {
  return Object.entries(one).some(([name, value]) => other[name as keyof Gateway] !== value);
}
