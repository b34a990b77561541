// The connected gateways, and what each has done with the revisions it got. This is the only place that the push socket
// writes and the REST API reads.

import { EventEmitter } from "node:events";
import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Problem } from "@sluice/limiter/document/validate.ts";
import type { GatewayMessage, HeldConsumers, RedisReport } from "@sluice/limiter/protocol/push-messages.ts";
import type { Position } from "../storage/epoch.ts";
import type { GatewayLink } from "./gateway-link.ts";
import type { PushedState } from "./pushed-state.ts";

export type Hello = Extract<GatewayMessage, { type: "hello" }>;

export interface Refusal {
  readonly epoch: string;
  readonly revision: number;
  readonly atMs: number;
  readonly problems: readonly Problem[];
}

export interface Gateway {
  readonly id: string;
  readonly version: string;
  readonly workers: number;
  /** The version of the push protocol that it speaks. */
  readonly protocol: number;
  readonly connectedAtMs: number;
  readonly disconnectedAtMs: number | undefined;
  /** The position that it enforces. */
  readonly epoch: string;
  readonly revision: number;
  /** The last snapshot that it refused, until it takes a newer one. */
  readonly refused: Refusal | undefined;
  readonly counters: Readonly<Record<string, number>>;
  /** Undefined if it has no Redis, or has not reported yet. */
  readonly redis: RedisReport | undefined;
  /** Of Sluice itself, by place; undefined: none within the last minutes. */
  readonly errors: Readonly<Record<string, number>> | undefined;
  /** Sentences for its operator; undefined: none. */
  readonly warnings: readonly string[] | undefined;
  /** Whether it has reported that it has no Redis. */
  readonly lacksRedis: boolean;
  /** The time since when it owes a report on a snapshot that it was sent; undefined if it owes none. */
  readonly owedSinceMs: number | undefined;
  /** Which consumers it holds; undefined: it takes none. */
  readonly consumers: HeldConsumers | undefined;
}

/** A gateway's report about itself. */
export type Report = Extract<GatewayMessage, { type: "applied" | "held" | "resync" | "refused" | "status" }>;

/** How many of the connected gateways have applied or refused a revision. */
export interface Applied {
  readonly gateways: number;
  readonly acked: number;
  readonly refused: number;
  /** The reasons of the first few gateways that refused; absent if none did. */
  readonly refusals?: readonly Refused[];
}

/** A gateway's refusal of a revision. */
export interface Refused {
  readonly gateway: string;
  readonly revision: number;
  readonly problems: readonly Problem[];
}

type Member = { -readonly [Field in keyof Gateway]: Gateway[Field] } & {
  link: GatewayLink | undefined;
  /** The last snapshot that the gateway was sent. */
  sent: Position | undefined;
};

/** How long a gateway stays in the list after it disconnected. */
const rememberMs = 3_600_000;
/** The most disconnected gateways to remember; those that left first are forgotten first. */
const mostRemembered = 200;
const mostRefusalsReported = 10;
/** Gateways get deltas for so long in one turn of the event loop. One takes some 20 µs, and to make a long one takes many milliseconds. */
const pushesInTurnMs = 3;

/**
 * Events: `members` when the set of connected gateways has changed, with the link of one that has joined; `progress` when any wait for a revision may be over,
 * `consumers` when any wait for a consumer may be over, `closing` when there will be no more progress.
 */
export class Fleet extends EventEmitter<{ members: [joined?: GatewayLink]; progress: []; consumers: []; closing: [] }> {
  readonly #members = new Map<string, Member>();
  /** Ids of the members that disconnected, in the order in which they left. */
  readonly #departed = new Set<string>();
  /** Gateways that are connected to other control planes of the same database, by id. */
  #elsewhere = new Map<string, Gateway>();
  readonly #now: () => number;

  constructor(now: () => number) {
    super();
    this.#now = now;
  }

  /** @returns the older link of the same id, which the caller must close */
  join(hello: Hello, link: GatewayLink): GatewayLink | undefined {
    const older = this.#members.get(hello.gateway);
    this.#departed.delete(hello.gateway);
    this.#forget();
    this.#members.set(hello.gateway, {
      id: hello.gateway,
      version: hello.version,
      workers: hello.workers,
      protocol: hello.protocol ?? 1,
      connectedAtMs: this.#now(),
      disconnectedAtMs: undefined,
      epoch: hello.epoch,
      revision: hello.revision,
      refused: older?.refused,
      counters: older?.counters ?? {},
      redis: undefined,
      errors: undefined,
      warnings: undefined,
      lacksRedis: false,
      owedSinceMs: undefined,
      consumers: undefined,
      link,
      sent: undefined,
    });
    this.emit("members", link);
    this.emit("progress");
    return older?.link;
  }

  /** Marks the link's gateway as disconnected, unless another link has replaced this one. @returns whether it did */
  leave(id: string, link: GatewayLink): boolean {
    const member = this.#memberOf(id, link);
    if (member === undefined) return false;
    member.link = undefined;
    member.disconnectedAtMs = this.#now();
    // For a gateway that left, only the first reason of its refusal is kept.
    if (member.refused !== undefined) {
      member.refused = { ...member.refused, problems: member.refused.problems.slice(0, 1) };
    }
    this.#departed.add(id);
    this.#forget();
    this.emit("members");
    this.emit("progress");
    this.emit("consumers");
    return true;
  }

  /** Records which consumers a gateway holds. */
  reportConsumers(id: string, link: GatewayLink, held: HeldConsumers): void {
    const member = this.#memberOf(id, link);
    if (member === undefined) return;
    const { epoch, position, count, unstored, lacking } = held;
    member.consumers = { epoch, position, count, unstored, ...(lacking === undefined ? {} : { lacking }) };
    this.emit("consumers");
  }

  /** Records a report. A report over a replaced link is ignored. */
  report(id: string, link: GatewayLink, message: Report): void {
    const member = this.#memberOf(id, link);
    if (member === undefined) return;
    switch (message.type) {
      case "applied":
        member.epoch = message.epoch;
        member.revision = message.revision;
        this.#noteReported(member, message);
        if (member.refused?.epoch !== message.epoch || member.refused.revision <= message.revision) {
          member.refused = undefined;
        }
        break;
      case "refused": {
        const { epoch, revision, problems } = message;
        member.refused = { epoch, revision, atMs: this.#now(), problems };
        this.#noteReported(member, message);
        break;
      }
      case "status":
        member.counters = message.counters;
        member.redis = unlessEqual(member.redis, message.redis);
        member.errors = unlessEqual(member.errors, message.errors);
        member.warnings = unlessEqual(member.warnings, message.warnings);
        member.lacksRedis = message.redis === undefined;
        return;
      // It lags, or gets a snapshot: what it enforces has not changed.
      case "held":
      case "resync":
        return;
    }
    this.emit("progress");
  }

  /** Sends every gateway what it lacks. A part of them at a time, so that requests are served meanwhile. */
  async pushToAll(state: PushedState): Promise<void> {
    let beganAtMs = performance.now();
    for (const { id, link } of this.connected()) {
      this.push(id, link, state);
      if (performance.now() - beganAtMs < pushesInTurnMs) continue;
      await setImmediate();
      beganAtMs = performance.now();
    }
  }

  /** Sends a gateway what it lacks, unless it owes an answer. */
  push(id: string, link: GatewayLink, state: PushedState): void {
    const member = this.#memberOf(id, link);
    if (member === undefined) return;
    const sent = link.push(state);
    if (sent === undefined) return;
    member.sent = sent;
    member.owedSinceMs ??= this.#now();
  }

  /** Replaces what is known of gateways that are connected to other control planes. */
  setElsewhere(gateways: readonly Gateway[]): void {
    this.#elsewhere = new Map(gateways.map((gateway) => [gateway.id, gateway]));
    this.emit("members");
    this.emit("progress");
    this.emit("consumers");
  }

  /** Connected gateways, here or elsewhere, and those that left less than an hour ago. */
  list(): Gateway[] {
    this.#forget();
    const all = new Map<string, Gateway>(this.#elsewhere);
    for (const member of this.#members.values()) {
      if (member.link !== undefined || !all.has(member.id)) all.set(member.id, member);
    }
    return [...all.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** Returns the gateways that are connected to this control plane, without what only this process can use. */
  connectedHere(): Gateway[] {
    return [...this.#members.values()]
      .filter(({ link }) => link !== undefined)
      .map(({ link, sent, ...gateway }) => gateway);
  }

  /** Returns the ids of the connected gateways, here or elsewhere. */
  connectedIds(): string[] {
    return this.#connected()
      .map(({ id }) => id)
      .sort();
  }

  /** Returns the ids of gateways that are connected to other control planes, and not here. */
  idsElsewhere(): string[] {
    return [...this.#elsewhere.keys()].filter((id) => this.#members.get(id)?.link === undefined);
  }

  /** The number of connected gateways, here or elsewhere. */
  get connectedCount(): number {
    let count = this.#members.size - this.#departed.size;
    for (const id of this.#elsewhere.keys()) if (this.#members.get(id)?.link === undefined) count += 1;
    return count;
  }

  /** Returns the number of gateways that are connected or still remembered. */
  get remembered(): number {
    return this.#members.size;
  }

  links(): GatewayLink[] {
    return [...this.#members.values()].flatMap(({ link }) => link ?? []);
  }

  /** Returns the connected gateways in the order of their ids. */
  connected(): { id: string; link: GatewayLink }[] {
    const connected: { id: string; link: GatewayLink }[] = [];
    for (const { id, link } of this.#members.values()) if (link !== undefined) connected.push({ id, link });
    return connected.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * Counts how many connected gateways apply `revision` or a later one, and how many refused it or a later one.
   * @param newest the newest position of this history; a gateway with a later revision holds another history
   */
  applied(newest: Position, revision: number): Applied {
    let gateways = 0;
    let acked = 0;
    let refused = 0;
    const refusals: Refused[] = [];
    for (const member of this.#connected()) {
      gateways += 1;
      if (member.refused?.epoch === newest.epoch && member.refused.revision >= revision) {
        refused += 1;
        const { revision: which, problems } = member.refused;
        if (refusals.length < mostRefusalsReported) refusals.push({ gateway: member.id, revision: which, problems });
      } else if (member.epoch !== newest.epoch) continue;
      else if (member.revision >= revision && member.revision <= newest.revision) acked += 1;
    }
    return refusals.length === 0 ? { gateways, acked, refused } : { gateways, acked, refused, refusals };
  }

  /**
   * Returns the newest revision that every connected gateway has applied or refused: for this revision and all before it,
   * `applied` counts every gateway. Infinity if no gateway is connected; -Infinity if one has nothing of this history.
   */
  settled(newest: Position): number {
    let settled = Number.POSITIVE_INFINITY;
    for (const { epoch, revision, refused } of this.#connected()) {
      const isHeld = epoch === newest.epoch && revision <= newest.revision;
      const held = isHeld ? revision : Number.NEGATIVE_INFINITY;
      const validated = refused?.epoch === newest.epoch ? refused.revision : Number.NEGATIVE_INFINITY;
      settled = Math.min(settled, Math.max(held, validated));
    }
    return settled;
  }

  /** Counts how many connected gateways decide by all consumers of the app at this position or a later one. */
  appliedConsumers({ epoch }: Position, position: number, app: string): Applied {
    const connected = this.#connected();
    const acked = connected.filter(
      ({ consumers: held }) => held?.epoch === epoch && held.position >= position && !lacksConsumers(held, app),
    );
    return { gateways: connected.length, acked: acked.length, refused: 0 };
  }

  /** Returns the position of consumers that all connected gateways have which take any. Infinity if there is none. */
  settledConsumers({ epoch }: Position): number {
    let settled = Number.POSITIVE_INFINITY;
    for (const { consumers } of this.#connected()) {
      if (consumers === undefined) continue;
      settled = Math.min(settled, consumers.epoch === epoch ? consumers.position : Number.NEGATIVE_INFINITY);
    }
    return settled;
  }

  /** A gateway that has just changed its control plane may be connected to both: it counts once, as it is here. */
  #connected(): Gateway[] {
    const connected: Gateway[] = [...this.#members.values()].filter(({ link }) => link !== undefined);
    for (const gateway of this.#elsewhere.values()) {
      if (this.#members.get(gateway.id)?.link === undefined) connected.push(gateway);
    }
    return connected;
  }

  /** Records that a gateway reported on a snapshot: the last one that it was sent, or an earlier one. */
  #noteReported(member: Member, { epoch, revision }: Position): void {
    const isLast = member.sent?.epoch !== epoch || member.sent.revision <= revision;
    member.owedSinceMs = isLast ? undefined : this.#now();
  }

  /** Forgets gateways that left long ago, or before many others. */
  #forget(): void {
    const forgetBeforeMs = this.#now() - rememberMs;
    for (const id of this.#departed) {
      const goneAtMs = this.#members.get(id)?.disconnectedAtMs ?? 0;
      if (goneAtMs >= forgetBeforeMs && this.#departed.size <= mostRemembered) break;
      this.#departed.delete(id);
      this.#members.delete(id);
    }
  }

  #memberOf(id: string, link: GatewayLink): Member | undefined {
    const member = this.#members.get(id);
    return member?.link === link ? member : undefined;
  }
}

/** Keeps a report that says the same as the one before: then nobody needs to be told of it again. */
function unlessEqual<Part>(before: Part, reported: Part): Part {
  return isDeepStrictEqual(before, reported) ? before : reported;
}

/** A gateway that does not say whose consumers have no room there may lack those of every app. */
function lacksConsumers({ unstored, lacking = {} }: HeldConsumers, app: string): boolean {
  if (unstored === 0) return false;
  const named = Object.values(lacking).reduce((sum, one) => sum + one, 0);
  return named < unstored || (Object.hasOwn(lacking, app) && (lacking[app] ?? 0) > 0);
}
