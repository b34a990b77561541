// The state that gateways are to have, as the lines that they get, with what has changed lately. It is read from the database once,
// and then changed by what has changed there. A snapshot is put together for gateways that hold nothing that is known here; others get
// a delta, made once for all that hold the same revision.

import { setImmediate } from "node:timers/promises";
import type { SnapshotBan } from "@sluice/limiter/compiled/bans.ts";
import type { ZoneTransition } from "@sluice/limiter/document/schedule.ts";
import { listKey } from "@sluice/limiter/key/network-lists.ts";
import {
  afterList,
  beforeList,
  type FrameType,
  isOptional,
  type ListName,
  listsOf,
} from "@sluice/limiter/protocol/frame-lines.ts";
import { type SnapshotCaller, snapshotFormat } from "@sluice/limiter/protocol/push-messages.ts";
import {
  type GoneEntry,
  kindOf,
  nameOfApp,
  nameOfBan,
  nameOfCaller,
  nameOfPolicy,
} from "@sluice/limiter/state/entries.ts";
import { pauses } from "../limits/pauses.ts";
import { networkLines } from "../networks/network-lines.ts";
import type { Position } from "../storage/epoch.ts";
import type { StateChanges, StoredState } from "../storage/state.ts";
import { isOfTerm, lastTerm, type Term } from "../storage/terms.ts";
import { LineList } from "./line-list.ts";
import { appLine, type PolicyLine, policyLine } from "./policy-lines.ts";
import { proofOf } from "./position-proof.ts";

/** The position of a state, its term, and the edition: see `Position` of the limiter. */
export interface EditedPosition extends Position {
  readonly edition: string | undefined;
  /** In which it was read (storage/terms.ts): two histories may have a position with the same numbers. */
  readonly term: string | undefined;
}

/** A snapshot or a delta, ready to be sent. */
export interface Frame {
  readonly type: FrameType;
  readonly position: EditedPosition;
  /** Pieces of one text message. They never change. */
  readonly pieces: readonly Buffer[];
  readonly bytes: number;
}

/** The most names of changed entries to remember; the oldest changes are forgotten first. */
const mostRemembered = 50_000;
/** Deltas to one revision are made and kept until they have so many times the bytes of a snapshot, or of a small one of this size. */
const mostDeltas = 2;
const leastSnapshotBytes = 1_048_576;

/** The names that changed on the way to a revision. */
interface LoggedChange {
  readonly from: number;
  readonly to: number;
  readonly names: readonly string[];
  /** Those that were gone at some time on this way. */
  readonly deleted: readonly string[];
  /**
   * True if callers or lists of networks changed. Callers and blocks that came and went on this way are not among the names: the history
   * does not name them.
   */
  readonly changesUnnamed: boolean;
}

interface BanLine {
  readonly app: string;
  /** The name of the policy whose key values are banned. */
  readonly policy: string | undefined;
  readonly untilSeconds: number;
}

interface CallerLine {
  readonly app: string;
  readonly expiresAtSeconds: number | undefined;
}

export class PushedState {
  readonly #edition: string;
  #position: EditedPosition;
  #proofKey: string;
  #terms: readonly Term[];
  readonly #lists: Readonly<Record<Exclude<ListName, "gone">, LineList>>;
  /** By app and list: the names of its blocks. */
  readonly #blocks = new Map<string, ReadonlySet<string>>();
  readonly #bans = new Map<string, BanLine>();
  readonly #callers = new Map<string, CallerLine>();
  readonly #zones = new Map<string, readonly ZoneTransition[]>();
  /** By policy, those that go by any: the names of its zones. */
  readonly #zonesOf = new Map<string, readonly string[]>();
  /** The names of policies that need Redis at the gateways. */
  readonly #needRedis = new Set<string>();
  /** In the order of revisions, without a gap. */
  #log: LoggedChange[] = [];
  /** The place in the log of the oldest change that is remembered. */
  #oldest = 0;
  #remembered = 0;
  /** Deltas from this revision on can be made. */
  #logFrom: number;
  /** When the state was read or changed last. */
  #asOfMs: number;
  #snapshot: Frame | undefined;
  /** By the revision that they are from. */
  #deltas = new Map<number, Frame>();
  #bytesOfDeltas = 0;

  private constructor(edition: string, { epoch, revision, proofKey, terms }: StoredState, nowMs: number) {
    this.#asOfMs = nowMs;
    this.#edition = edition;
    this.#position = { epoch, revision, edition, term: lastTerm(terms) };
    this.#terms = terms;
    this.#proofKey = proofKey;
    this.#logFrom = revision;
    this.#lists = {
      apps: new LineList(),
      networks: new LineList(),
      bans: new LineList(),
      callers: new LineList(),
      policies: new LineList(),
    };
  }

  /** Reads a whole state. Requests are served meanwhile. @param edition says how this control plane makes states */
  static async from(edition: string, stored: StoredState, nowMs: number): Promise<PushedState> {
    const state = new PushedState(edition, stored, nowMs);
    for (const app of stored.apps) state.#lists.apps.set(nameOfApp(app.name), appLine(app));
    for (const { app, name, ranges } of stored.networkLists) {
      state.#replaceNetworks(app, name, ranges, new Set());
      await setImmediate();
    }
    for (const ban of stored.bans) state.#setBan(ban);
    for (const caller of stored.callers) state.#setCaller(caller);
    const templates = templatesByApp(stored);
    const pause = pauses(setImmediate);
    for (const { app, name, document } of stored.policies) {
      await pause();
      state.#setPolicy(nameOfPolicy(app, name), policyLine(app, document, templates.get(app), nowMs));
    }
    return state;
  }

  get position(): EditedPosition {
    return this.#position;
  }

  get proofKey(): string {
    return this.#proofKey;
  }

  /** Whether any policy enforces limits whose counters are in Redis. */
  get needsRedis(): boolean {
    return this.#needRedis.size > 0;
  }

  /** The size of a snapshot, without a few hundred bytes that are around the lists. */
  get bytes(): number {
    const { apps, networks, bans, callers, policies } = this.#lists;
    return apps.bytes + networks.bytes + bans.bytes + callers.bytes + policies.bytes;
  }

  /**
   * Applies what has changed since the present position. Lines are written a few at a time, and requests are served meanwhile; then
   * the state changes as a whole.
   */
  async apply(changes: StateChanges, nowMs: number): Promise<void> {
    const { epoch, revision, proofKey, terms } = changes;
    const written: { name: string; line: PolicyLine | undefined }[] = [];
    const names = new Set<string>();
    const deleted = new Set<string>();
    const pause = pauses(setImmediate);
    for (const { app, name, document, wasDeleted } of changes.policies) {
      await pause();
      const policy = nameOfPolicy(app, name);
      if (document === undefined || wasDeleted) deleted.add(policy);
      const line = document === undefined ? undefined : policyLine(app, document, changes.templates.get(app), nowMs);
      written.push({ name: policy, line });
    }
    for (const { name, app, wasDeleted } of changes.apps) {
      if (app === undefined || wasDeleted) deleted.add(nameOfApp(name));
    }
    if (deleted.size > 0) this.#removeBansOf(deleted, names);
    for (const { name, line } of written) {
      names.add(name);
      this.#setPolicy(name, line);
    }
    for (const { name, app } of changes.apps) {
      const entry = nameOfApp(name);
      names.add(entry);
      this.#lists.apps.set(entry, app === undefined ? undefined : appLine(app));
    }
    for (const { app, name, ranges } of changes.networkLists) this.#replaceNetworks(app, name, ranges, names);
    for (const { id, ban } of changes.bans) {
      names.add(nameOfBan({ id }));
      if (ban === undefined) this.#removeBan(id);
      else this.#setBan(ban);
    }
    for (const { app, callers } of changes.callers) this.#replaceCallers(app, callers, names);
    this.#log.push({
      from: this.#position.revision,
      to: revision,
      names: [...names],
      deleted: [...deleted],
      changesUnnamed: changes.callers.length + changes.networkLists.length > 0,
    });
    this.#remembered += 1 + names.size;
    this.#forgetOldest();
    this.#position = { epoch, revision, edition: this.#edition, term: lastTerm(terms) };
    this.#terms = terms;
    this.#proofKey = proofKey;
    this.#asOfMs = nowMs;
    this.#snapshot = undefined;
    this.#deltas = new Map();
    this.#bytesOfDeltas = 0;
  }

  /** Removes bans and tokens that are over. Gateways know when that is, and are not told. */
  removeWhatIsOver(nowMs: number): void {
    const nowSeconds = nowMs / 1_000;
    const { size } = this.#bans;
    const { size: callers } = this.#callers;
    for (const [id, { untilSeconds }] of this.#bans) if (untilSeconds <= nowSeconds) this.#removeBan(id);
    for (const [sha256, { expiresAtSeconds }] of this.#callers) {
      if (expiresAtSeconds !== undefined && expiresAtSeconds <= nowSeconds) this.#removeCaller(sha256);
    }
    if (this.#bans.size !== size || this.#callers.size !== callers) this.#snapshot = undefined;
  }

  snapshot(): Frame {
    this.#snapshot ??= this.#makeSnapshot();
    return this.#snapshot;
  }

  /** Returns whether a position is not later than this one, and of the same history. */
  hasPassed({ epoch, revision, term }: EditedPosition): boolean {
    const { epoch: ownEpoch, revision: newest } = this.#position;
    return epoch === ownEpoch && revision <= newest && isOfTerm(this.#terms, term, "revision", revision);
  }

  /** Returns what changed since a position; undefined: that is not known here, or nothing has, or a snapshot costs less. */
  deltaFrom(position: EditedPosition): Frame | undefined {
    const { revision, edition } = position;
    if (edition !== this.#edition || revision < this.#logFrom || revision === this.#position.revision) return undefined;
    if (!this.hasPassed(position)) return undefined;
    const known = this.#deltas.get(revision);
    if (known !== undefined) return known;
    const first = this.#placeAfter(revision);
    const { from, changesUnnamed } = this.#log[first] as LoggedChange;
    // A gateway of another control plane is in the middle of what is one change here, and may have a caller or a block that we never knew.
    if (from < revision && changesUnnamed) return undefined;
    // All gateways share one snapshot, and those at one revision a delta: many long ones would take time and memory.
    if (this.#bytesOfDeltas > mostDeltas * Math.max(this.bytes, leastSnapshotBytes)) return undefined;
    const made = this.#makeDelta(revision, first);
    this.#deltas.set(revision, made);
    this.#bytesOfDeltas += made.bytes;
    return made;
  }

  /** Returns the place in the log of the change that a revision is before, or in the middle of. */
  #placeAfter(revision: number): number {
    let first = this.#log.length;
    while (first > this.#oldest && (this.#log[first - 1] as LoggedChange).to > revision) first -= 1;
    return first;
  }

  #setPolicy(name: string, written: PolicyLine | undefined): void {
    this.#lists.policies.set(name, written?.line);
    if (written?.needsRedis === true) this.#needRedis.add(name);
    else this.#needRedis.delete(name);
    const zones = written?.zones ?? [];
    for (const zone of zones) this.#zones.set(zone.name, zone.transitions);
    if (zones.length === 0) this.#zonesOf.delete(name);
    else
      this.#zonesOf.set(
        name,
        zones.map((zone) => zone.name),
      );
  }

  /** @param ranges undefined: the list is gone @param names gets the blocks that change */
  #replaceNetworks(app: string, list: string, ranges: string | undefined, names: Set<string>): void {
    const key = listKey(app, list);
    const lines = ranges === undefined ? new Map<string, string>() : networkLines(app, list, ranges);
    const changed = [...lines].filter(([name, line]) => this.#lists.networks.get(name) !== line);
    const gone = [...(this.#blocks.get(key) ?? [])].filter((name) => !lines.has(name));
    for (const name of gone) this.#lists.networks.set(name, undefined);
    for (const [name, line] of changed) this.#lists.networks.set(name, line);
    for (const name of [...gone, ...changed.map(([one]) => one)]) names.add(name);
    if (lines.size === 0) this.#blocks.delete(key);
    else this.#blocks.set(key, new Set(lines.keys()));
  }

  #setBan(ban: SnapshotBan): void {
    const policy = ban.policy === undefined ? undefined : nameOfPolicy(ban.app, ban.policy);
    this.#bans.set(ban.id, { app: ban.app, policy, untilSeconds: ban.untilSeconds });
    this.#lists.bans.set(nameOfBan(ban), JSON.stringify(ban));
  }

  #removeBan(id: string): void {
    this.#bans.delete(id);
    this.#lists.bans.set(nameOfBan({ id }), undefined);
  }

  /** Bans go with their policy or app: the history does not name them. @param deleted names of policies and apps */
  #removeBansOf(deleted: ReadonlySet<string>, names: Set<string>): void {
    for (const [id, { app, policy }] of this.#bans) {
      if (!deleted.has(nameOfApp(app)) && (policy === undefined || !deleted.has(policy))) continue;
      this.#removeBan(id);
      names.add(nameOfBan({ id }));
    }
  }

  #setCaller(caller: SnapshotCaller): void {
    const { app, sha256, expiresAtSeconds } = caller;
    this.#callers.set(sha256, { app, expiresAtSeconds });
    this.#lists.callers.set(nameOfCaller(caller), JSON.stringify(caller));
  }

  #removeCaller(sha256: string): void {
    this.#callers.delete(sha256);
    this.#lists.callers.set(nameOfCaller({ sha256 }), undefined);
  }

  /** The history names tokens as people do, which is not enough to tell them apart. */
  #replaceCallers(app: string, callers: readonly SnapshotCaller[], names: Set<string>): void {
    const left = new Set(callers.map(({ sha256 }) => sha256));
    for (const [sha256, caller] of this.#callers) {
      if (caller.app !== app || left.has(sha256)) continue;
      this.#removeCaller(sha256);
      names.add(nameOfCaller({ sha256 }));
    }
    for (const caller of callers) {
      if (this.#callers.has(caller.sha256)) continue;
      this.#setCaller(caller);
      names.add(nameOfCaller(caller));
    }
  }

  #forgetOldest(): void {
    while (this.#remembered > mostRemembered && this.#oldest < this.#log.length) {
      const { names, to } = this.#log[this.#oldest] as LoggedChange;
      this.#remembered -= 1 + names.length;
      this.#logFrom = to;
      this.#oldest += 1;
    }
    // The list is copied when half of it is forgotten, and not at each change.
    if (this.#oldest * 2 < this.#log.length) return;
    this.#log = this.#log.slice(this.#oldest);
    this.#oldest = 0;
  }

  #makeSnapshot(): Frame {
    this.removeWhatIsOver(this.#asOfMs);
    const zones = this.#zones.size === 0 ? {} : { zones: Object.fromEntries(this.#zones) };
    const pieces = Object.fromEntries(Object.entries(this.#lists).map(([name, list]) => [name, list.pieces()]));
    return this.#frame("snapshot", zones, pieces);
  }

  /** @param first the place of its first change in the log */
  #makeDelta(revision: number, first: number): Frame {
    const names = new Set<string>();
    const deleted = new Set<string>();
    for (const logged of this.#log.slice(first)) {
      for (const name of logged.names) names.add(name);
      for (const name of logged.deleted) deleted.add(name);
    }
    // Gateways remove a policy's bans with the policy, and it may be there again.
    if (deleted.size > 0) {
      for (const [id, { policy }] of this.#bans) {
        if (policy !== undefined && deleted.has(policy)) names.add(nameOfBan({ id }));
      }
    }
    const lines: Record<ListName, string[]> = { apps: [], networks: [], bans: [], callers: [], policies: [], gone: [] };
    const zones: Record<string, readonly ZoneTransition[]> = {};
    for (const name of names) {
      const list = listOfKind[kindOf(name)];
      const line = this.#lists[list].get(name);
      if (line === undefined || deleted.has(name)) lines.gone.push(JSON.stringify(goneEntry(name)));
      if (line === undefined) continue;
      lines[list].push(line);
      for (const zone of this.#zonesOf.get(name) ?? [])
        zones[zone] = this.#zones.get(zone) as readonly ZoneTransition[];
    }
    const { epoch } = this.#position;
    const rest = {
      from: { epoch, revision, edition: this.#edition },
      policyCount: this.#lists.policies.size,
      ...(Object.keys(zones).length === 0 ? {} : { zones }),
    };
    const pieces = Object.fromEntries(
      Object.entries(lines).map(([name, list]) => [name, list.length === 0 ? [] : [Buffer.from(list.join(",\n"))]]),
    );
    return this.#frame("delta", rest, pieces);
  }

  #frame(type: FrameType, more: object, pieces: Readonly<Record<string, readonly Buffer[]>>): Frame {
    const { epoch, revision, edition } = this.#position;
    const proof = proofOf(this.#proofKey, lastTerm(this.#terms), this.#position);
    const head = JSON.stringify({ type, epoch, revision, format: snapshotFormat, proof, edition, ...more });
    const all: Buffer[] = [];
    const names = listsOf(type);
    for (const [place, name] of names.entries()) {
      const list = pieces[name] ?? [];
      if (isOptional(name) && list.length === 0) continue;
      all.push(Buffer.from(beforeList(name, all.length === 0, head)), ...list);
      all.push(Buffer.from(afterList(list.length === 0, place === names.length - 1)));
    }
    const bytes = all.reduce((sum, piece) => sum + piece.length, 0);
    return { type, position: this.#position, pieces: all, bytes };
  }
}

const listOfKind = {
  policy: "policies",
  app: "apps",
  networks: "networks",
  ban: "bans",
  caller: "callers",
  zone: "policies",
} as const;

/** @param name of any entry but a zone */
function goneEntry(name: string): GoneEntry {
  const rest = name.slice(2);
  switch (kindOf(name)) {
    case "app":
      return { app: rest };
    case "networks": {
      const [app = "", networks = "", from = ""] = rest.split(":");
      return { app, networks, from };
    }
    case "ban":
      return { ban: rest };
    case "caller":
      return { caller: rest };
    default: {
      const [app = "", policy = ""] = rest.split(":");
      return { app, policy };
    }
  }
}

function templatesByApp({
  templates,
}: Pick<StoredState, "templates">): Map<string, Map<string, Record<string, unknown>>> {
  const byApp = new Map<string, Map<string, Record<string, unknown>>>();
  for (const { app, name, document } of templates) {
    const ofApp = byApp.get(app) ?? new Map<string, Record<string, unknown>>();
    byApp.set(app, ofApp.set(name, JSON.parse(document)));
  }
  return byApp;
}
