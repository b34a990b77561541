// Who is connected and what each gateway has made of the revisions it got. The one place that both the push socket
// writes and the REST API reads.

import { EventEmitter } from "node:events";
import type { GatewayMessage, RedisReport } from "@sluice/limiter/policy/snapshot.ts";
import type { Problem } from "@sluice/limiter/policy/validate.ts";
import type { Position } from "../storage/epoch.ts";
import type { GatewayLink } from "./gateway-link.ts";

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
}

/** What a gateway tells of itself. */
export type Report = Extract<GatewayMessage, { type: "applied" | "refused" | "status" }>;

/** How far the connected gateways are with one revision. */
export interface Applied {
  readonly gateways: number;
  readonly acked: number;
  readonly refused: number;
}

type Member = { -readonly [Field in keyof Gateway]: Gateway[Field] } & { link: GatewayLink | undefined };

/** How long a gateway that went away is still shown. */
const rememberMs = 3_600_000;

/**
 * Events: `members` when the set of connected gateways changed, `progress` when any wait for a revision may be over,
 * `closing` when no more progress will come.
 */
export class Fleet extends EventEmitter<{ members: []; progress: []; closing: [] }> {
  readonly #members = new Map<string, Member>();
  readonly #now: () => number;

  constructor(now: () => number) {
    super();
    this.#now = now;
    // One listener for each request that waits: there is no leak to warn about.
    this.setMaxListeners(0);
  }

  /** @returns the older link of the same id, for the caller to close */
  join(hello: Hello, link: GatewayLink): GatewayLink | undefined {
    const older = this.#members.get(hello.gateway);
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
      link,
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
        if (member.refused?.epoch !== message.epoch || member.refused.revision <= message.revision) {
          member.refused = undefined;
        }
        break;
      case "refused": {
        const { epoch, revision, problems } = message;
        member.refused = { epoch, revision, atMs: this.#now(), problems };
        break;
      }
      case "status":
        member.counters = message.counters;
        member.redis = message.redis;
        return;
    }
    this.emit("progress");
  }

  /** Connected gateways, and those that left less than an hour ago. */
  list(): Gateway[] {
    const forgetBeforeMs = this.#now() - rememberMs;
    for (const [id, member] of this.#members) {
      if (member.disconnectedAtMs !== undefined && member.disconnectedAtMs < forgetBeforeMs) this.#members.delete(id);
    }
    return [...this.#members.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
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
    for (const member of this.#members.values()) {
      if (member.link === undefined) continue;
      gateways += 1;
      if (member.refused?.epoch === newest.epoch && member.refused.revision >= revision) refused += 1;
      else if (member.epoch !== newest.epoch) continue;
      else if (member.revision >= revision && member.revision <= newest.revision) acked += 1;
    }
    return { gateways, acked, refused };
  }

  #memberOf(id: string, link: GatewayLink): Member | undefined {
    const member = this.#members.get(id);
    return member?.link === link ? member : undefined;
  }
}
