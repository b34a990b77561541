// Who is connected and what each gateway has made of the revisions it got. The one place that both the push socket
// writes and the REST API reads.

import { EventEmitter } from "node:events";
import type { Problem } from "@sluice/limiter/document/validate.ts";
import type { GatewayMessage, RedisReport } from "@sluice/limiter/protocol/push-messages.ts";
import type { Position } from "../storage/epoch.ts";
import type { GatewayLink } from "./gateway-link.ts";
import type { SnapshotFrame } from "./snapshot-frame.ts";

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
  readonly connectedAtMs: number;
  readonly disconnectedAtMs: number | undefined;
  /** What it enforces. */
  readonly epoch: string;
  readonly revision: number;
  /** The last snapshot it would not take, until it takes a newer one. */
  readonly refused: Refusal | undefined;
  readonly counters: Readonly<Record<string, number>>;
  /** Undefined: it has none, or has not reported yet. */
  readonly redis: RedisReport | undefined;
  /** Whether it has reported that it has none. */
  readonly lacksRedis: boolean;
  /** Since when it has told nothing of a snapshot that it was sent. Undefined: there is none such. */
  readonly owedSinceMs: number | undefined;
}

/** What a gateway tells of itself. */
export type Report = Extract<GatewayMessage, { type: "applied" | "refused" | "status" }>;

/** How far the connected gateways are with one revision. */
export interface Applied {
  readonly gateways: number;
  readonly acked: number;
  readonly refused: number;
  /** What those that refused say of it, of the first few; absent where there is none. */
  readonly refusals?: readonly Refused[];
}

/** That a gateway would not take a revision. */
export interface Refused {
  readonly gateway: string;
  readonly revision: number;
  readonly problems: readonly Problem[];
}

type Member = { -readonly [Field in keyof Gateway]: Gateway[Field] } & {
  link: GatewayLink | undefined;
  /** The last snapshot that it was sent. */
  sent: Position | undefined;
};

/** How long a gateway that went away is still shown. */
const rememberMs = 3_600_000;
/** Of gateways that went away; those that went first are forgotten first. */
const mostRemembered = 200;
const mostRefusalsReported = 10;

/**
 * Events: `members` when the set of connected gateways changed, `progress` when any wait for a revision may be over,
 * `closing` when no more progress will come.
 */
export class Fleet extends EventEmitter<{ members: []; progress: []; closing: [] }> {
  readonly #members = new Map<string, Member>();
  /** Of the members, those that went away, in that order. */
  readonly #departed = new Set<string>();
  readonly #now: () => number;

  constructor(now: () => number) {
    super();
    this.#now = now;
  }

  /**
   * @param sent the snapshot that it was sent as it came; undefined: it has the newest
   * @returns the older link of the same id, for the caller to close
   */
  join(hello: Hello, link: GatewayLink, sent?: Position): GatewayLink | undefined {
    const older = this.#members.get(hello.gateway);
    this.#departed.delete(hello.gateway);
    this.#forget();
    this.#members.set(hello.gateway, {
      id: hello.gateway,
      version: hello.version,
      workers: hello.workers,
      connectedAtMs: this.#now(),
      disconnectedAtMs: undefined,
      epoch: hello.epoch,
      revision: hello.revision,
      refused: older?.refused,
      counters: older?.counters ?? {},
      redis: undefined,
      lacksRedis: false,
      owedSinceMs: sent === undefined ? undefined : this.#now(),
      link,
      sent,
    });
    this.emit("members");
    this.emit("progress");
    return older?.link;
  }

  /** Takes the link's gateway for gone, unless another link has replaced it. @returns whether it is gone */
  leave(id: string, link: GatewayLink): boolean {
    const member = this.#memberOf(id, link);
    if (member === undefined) return false;
    member.link = undefined;
    member.disconnectedAtMs = this.#now();
    // Only the first reason of the refusal is kept for a gateway that left.
    if (member.refused !== undefined) {
      member.refused = { ...member.refused, problems: member.refused.problems.slice(0, 1) };
    }
    this.#departed.add(id);
    this.#forget();
    this.emit("members");
    this.emit("progress");
    return true;
  }

  /** Notes a report; one that comes over a replaced link is nobody's any more. */
  report(id: string, link: GatewayLink, message: Report): void {
    const member = this.#memberOf(id, link);
    if (member === undefined) return;
    switch (message.type) {
      case "applied":
        member.epoch = message.epoch;
        member.revision = message.revision;
        this.#chargeDeferred(member, message);
        if (member.refused?.epoch !== message.epoch || member.refused.revision <= message.revision) {
          member.refused = undefined;
        }
        break;
      case "refused": {
        const { epoch, revision, problems } = message;
        member.refused = { epoch, revision, atMs: this.#now(), problems };
        this.#chargeDeferred(member, message);
        break;
      }
      case "status":
        member.counters = message.counters;
        member.redis = message.redis;
        member.lacksRedis = message.redis === undefined;
        return;
    }
    this.emit("progress");
  }

  sendToAll(frame: SnapshotFrame): void {
    for (const member of this.#members.values()) {
      if (member.link === undefined) continue;
      member.link.sendSnapshot(frame);
      member.sent = { epoch: frame.epoch, revision: frame.revision };
      member.owedSinceMs ??= this.#now();
    }
  }

  /** Connected gateways, and those that left less than an hour ago. */
  list(): Gateway[] {
    this.#forget();
    return [...this.#members.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** How many gateways there is anything known of, connected or not. */
  get remembered(): number {
    return this.#members.size;
  }

  links(): GatewayLink[] {
    return this.connected().map(({ link }) => link);
  }

  /** In the order of their ids. */
  connected(): { id: string; link: GatewayLink }[] {
    const connected: { id: string; link: GatewayLink }[] = [];
    for (const { id, link } of this.#members.values()) if (link !== undefined) connected.push({ id, link });
    return connected.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * Of the connected gateways, how many apply `revision` or a later one, and how many refused it or a later one.
   * @param newest of this history; a gateway that holds more than that holds another one
   */
  applied(newest: Position, revision: number): Applied {
    let gateways = 0;
    let acked = 0;
    let refused = 0;
    const refusals: Refused[] = [];
    for (const member of this.#members.values()) {
      if (member.link === undefined) continue;
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
   * The newest revision that every connected gateway has applied or refused: `applied` counts all of them for this one
   * and for each before it. Infinity where none is connected; -Infinity where one has nothing of this history.
   */
  settled(newest: Position): number {
    let settled = Number.POSITIVE_INFINITY;
    for (const { link, epoch, revision, refused } of this.#members.values()) {
      if (link === undefined) continue;
      const isHeld = epoch === newest.epoch && revision <= newest.revision;
      const held = isHeld ? revision : Number.NEGATIVE_INFINITY;
      const validated = refused?.epoch === newest.epoch ? refused.revision : Number.NEGATIVE_INFINITY;
      settled = Math.min(settled, Math.max(held, validated));
    }
    return settled;
  }

  /** It has told what became of a snapshot: of the one that it was sent last, or of one before. */
  #chargeDeferred(member: Member, { epoch, revision }: Position): void {
    const isLast = member.sent?.epoch !== epoch || member.sent.revision <= revision;
    member.owedSinceMs = isLast ? undefined : this.#now();
  }

  /** Those that went away long ago, or before very many others. */
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
