// Reads the text of a snapshot or a delta into a change of a state. Everything is validated again: a text is accepted whole or refused
// whole. It is read in short steps, one line at a time, and entries that are held already are not read again.

import type { Pause } from "../basics/pause.ts";
import { emptyTable } from "../basics/table.ts";
import type { SnapshotBan } from "../compiled/bans.ts";
import { addProblem, type Findings, listProblems, noFindings, type Problem } from "../document/problems.ts";
import { describeValue } from "../document/validate.ts";
import { policyOfBan } from "../state/ban-book.ts";
import { type Change, newChange } from "../state/change.ts";
import {
  beginOfBlock,
  type EntryText,
  type GoneEntry,
  kindOf,
  nameOfApp,
  nameOfBan,
  nameOfCaller,
  nameOfGone,
  nameOfNetworks,
  nameOfPolicy,
  nameOfZone,
  type SnapshotNetworks,
} from "../state/entries.ts";
import { isSamePosition, nowhere, type Position } from "../state/policy-state.ts";
import {
  isPolicyEntry,
  readAppEntry,
  readBanEntry,
  readCallerEntry,
  readGoneEntry,
  readNetworksEntry,
  readPolicyEntry,
  readValidPolicyEntry,
  readZoneEntry,
} from "../state/read-entries.ts";
import { type FrameType, isComplete, type LineTaker, type ListName, newLineReader, takeLine } from "./frame-lines.ts";
import { snapshotFormat } from "./push-messages.ts";

export type { EntryText } from "../state/entries.ts";

/** The entries that are held, by name. */
export interface HeldEntries {
  /** Where they are from. */
  readonly position: Position;
  /** Returns the text of an entry; undefined: there is no such entry, or its text is not known. */
  textOf(this: void, name: string): string | undefined;
  /** Calls back for each name. */
  eachName(this: void, callback: (this: void, name: string) => void): void;
}

export interface JsonCodec {
  /** @returns undefined: it is not JSON */
  decode(this: void, text: string): unknown;
  encode(this: void, value: unknown): string;
}

export interface ReadFrame {
  readonly type: FrameType;
  readonly change: Change;
  /** The entries that the change sets, and the names of those that are gone. */
  readonly set: readonly EntryText[];
  readonly gone: readonly string[];
  /** How many policies there must be afterwards; undefined: the text does not say. */
  readonly policyCount: number | undefined;
}

export interface FrameReading {
  /** Present when there are no problems, and the delta fits. */
  frame?: ReadFrame;
  /** True: the text is a delta from another position than what is held. */
  misfit: boolean;
  problems: Problem[];
}

/**
 * Never throws.
 *
 * @param chunkAt returns the text in pieces that end where lines end, from 0 on; undefined after the last
 * @param held of a snapshot, only what differs from this is in the change; a delta must be from its position
 */
export function readFrame(
  chunkAt: (this: void, place: number) => string | undefined,
  codec: JsonCodec,
  held: HeldEntries,
  pause: Pause,
): FrameReading {
  const lines = newLineReader();
  let frame: Frame | undefined;
  const taker: LineTaker = {
    head(text) {
      frame = beginFrame(codec, text, held);
      return frame?.type;
    },
    entry(list, text) {
      return takeEntry(frame as Frame, list, text, codec, pause);
    },
  };
  for (let place = 0; ; place++) {
    const chunk = chunkAt(place);
    if (chunk === undefined) break;
    let from = 0;
    while (from < chunk.length) {
      const end = chunk.indexOf("\n", from);
      if (end < 0 || !takeLine(lines, chunk.slice(from, end), taker)) return anotherLayout(frame);
      // The format determines how to read the rest: in another format the lines mean nothing.
      if (frame?.broken === true) return { misfit: frame.misfit, problems: listProblems(frame.findings) };
      from = end + 1;
      pause();
    }
  }
  if (!isComplete(lines) || frame === undefined) return anotherLayout(frame);
  return endFrame(frame, codec, pause);
}

type Json = Record<string, unknown>;

/** A text while it is read. */
interface Frame {
  readonly type: FrameType;
  readonly held: HeldEntries;
  readonly findings: Findings;
  readonly change: Change;
  /** The policies that the change has as texts. */
  readonly written: EntryText[];
  readonly zones: Json;
  readonly policyCount: number | undefined;
  /** Nothing more can be read. */
  broken: boolean;
  misfit: boolean;
  readonly set: EntryText[];
  readonly gone: string[];
  /** Bans that are held, and listed again. */
  readonly keptBans: { readonly ban: SnapshotBan; readonly text: string }[];
  /** Names of entries that were read. */
  readonly seen: Record<string, boolean>;
  /** How many entries of each list were read. */
  readonly counts: Record<ListName, number>;
}

function anotherLayout(frame: Frame | undefined): FrameReading {
  const findings = frame?.findings ?? noFindings();
  const got = "a text with another layout, or one that is not JSON";
  addProblem(findings, { path: "", expected: "a snapshot or a delta, laid out in lines", got });
  return { misfit: false, problems: listProblems(findings) };
}

/** @returns undefined: it is not the head of any text */
function beginFrame({ decode }: JsonCodec, text: string, held: HeldEntries): Frame | undefined {
  const head = decode(text);
  if (typeof head !== "object" || head === null || Array.isArray(head)) return undefined;
  const { type, format, epoch, revision, edition, proof, zones = {}, from, policyCount } = head as Json;
  if (type !== "snapshot" && type !== "delta") return undefined;
  for (const list of ["apps", "networks", "bans", "callers", "policies", "gone"]) {
    if ((head as Json)[list] !== undefined) return undefined;
  }
  const findings = noFindings();
  let broken = false;
  let misfit = false;
  if (format !== snapshotFormat) {
    addProblem(findings, { path: "format", expected: `${snapshotFormat}`, got: describeValue(format) });
    broken = true;
  } else {
    if (typeof epoch !== "string" || epoch === "") {
      addProblem(findings, { path: "epoch", expected: "a non-empty text", got: describeValue(epoch) });
    }
    if (!isRevision(revision)) {
      addProblem(findings, { path: "revision", expected: "a whole number", got: describeValue(revision) });
    }
    if (typeof zones !== "object" || zones === null) {
      addProblem(findings, { path: "zones", expected: "an object", got: describeValue(zones) });
      broken = true;
    }
    if (type === "delta" && !isFrom(from, held.position)) {
      broken = true;
      misfit = true;
    }
  }
  const position: Position = {
    epoch: epoch as string,
    revision: revision as number,
    // Neither is interpreted here, so one of the wrong type is dropped without a problem.
    edition: typeof edition === "string" ? edition : undefined,
    proof: typeof proof === "string" ? proof : undefined,
  };
  const written: EntryText[] = [];
  return {
    type,
    held,
    findings,
    change: newChange(position, { entries: written, read: (entry) => readValidPolicyEntry(decode(entry.text)) }),
    written,
    zones: zones as Json,
    policyCount: typeof policyCount === "number" ? policyCount : undefined,
    broken,
    misfit,
    set: [],
    gone: [],
    keptBans: [],
    seen: emptyTable(),
    counts: { apps: 0, networks: 0, bans: 0, callers: 0, policies: 0, gone: 0 },
  };
}

function isFrom(from: unknown, held: Position): boolean {
  if (typeof from !== "object" || from === null) return false;
  const { epoch, revision, edition } = from as Json;
  const isText = typeof edition === "string";
  return isSamePosition(
    { ...nowhere, epoch: epoch as string, revision: revision as number, edition: isText ? edition : undefined },
    held,
  );
}

/** @returns false: the line is not JSON */
function takeEntry(frame: Frame, list: ListName, text: string, codec: JsonCodec, pause: Pause): boolean {
  const value = codec.decode(text);
  if (value === undefined) return false;
  const { findings, change, counts } = frame;
  const path = `${list}[${counts[list]}]`;
  counts[list] += 1;
  if (list === "policies") {
    // What is held was valid when it came. Its name is all that is needed of it.
    const name = policyNameIn(value);
    if (name !== undefined && isHeld(frame, name, text)) return true;
    if (change.policies.length < mostKeptRead) {
      const entry = readPolicyEntry(value, path, findings);
      if (entry !== undefined && isNew(frame, nameOfPolicy(entry.app, entry.policy.name), text, path)) {
        change.policies.push(entry);
      }
    } else if (isPolicyEntry(value, path, findings) && isNew(frame, name as string, text, path)) {
      frame.written.push(frame.set[frame.set.length - 1] as EntryText);
    }
  } else if (list === "apps") {
    const entry = readAppEntry(value, path, findings);
    if (entry !== undefined && isNew(frame, nameOfApp(entry.app), text, path)) change.apps.push(entry);
  } else if (list === "networks") {
    const entry = readNetworksEntry(value, path, findings, pause);
    if (entry !== undefined && isNew(frame, nameOfBlock(entry), text, path)) change.networks.push(entry);
  } else if (list === "bans") {
    const entry = readBanEntry(value, path, findings);
    if (entry === undefined) return true;
    if (isNew(frame, nameOfBan(entry), text, path)) change.bans.push(entry);
    else frame.keptBans.push({ ban: entry, text });
  } else if (list === "callers") {
    const entry = readCallerEntry(value, path, findings);
    if (entry !== undefined && isNew(frame, nameOfCaller(entry), text, path)) change.callers.push(entry);
  } else {
    const gone = readGoneEntry(value, path, findings);
    if (gone !== undefined) {
      change.gone.push(gone);
      frame.gone.push(nameOfGone(gone));
    }
  }
  return true;
}

function nameOfBlock(block: SnapshotNetworks): string {
  return nameOfNetworks(block.app, block.networks, beginOfBlock(block));
}

/** Of so many policies what was read is kept. Of the others only the text is, and they are read again when they are compiled. */
const mostKeptRead = 200;

function policyNameIn(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { app, document } = value as { app: unknown; document: { name: unknown } | undefined };
  if (typeof app !== "string" || typeof document !== "object" || document === null) return undefined;
  const { name } = document;
  return typeof name === "string" ? nameOfPolicy(app, name) : undefined;
}

/** Returns whether the same entry is held, and notes that it stays. */
function isHeld({ type, held, seen }: Frame, name: string, text: string): boolean {
  if (type !== "snapshot" || seen[name] === true || held.textOf(name) !== text) return false;
  seen[name] = true;
  return true;
}

/** Returns whether the entry is to be set, and notes it. It is a mistake to list one twice. */
function isNew(frame: Frame, name: string, text: string, path: string): boolean {
  const { findings, seen, set } = frame;
  if (seen[name] === true) {
    addProblem(findings, { path, expected: "an entry that is not listed before", got: `"${name.slice(2)}" again` });
    return false;
  }
  if (isHeld(frame, name, text)) return false;
  seen[name] = true;
  set.push({ name, text });
  return true;
}

function endFrame(frame: Frame, { encode }: JsonCodec, pause: Pause): FrameReading {
  const { type, held, findings, change, zones, seen, set, gone, keptBans, policyCount } = frame;
  for (const zone in zones) {
    const path = `zones.${zone}`;
    const entry = readZoneEntry(zone, zones[zone], path, findings);
    if (entry === undefined) continue;
    const name = nameOfZone(zone);
    const text = encode(entry);
    // A delta has the zones of its policies, held or not. One that changed would have all policies in it compiled again.
    if (type === "delta" && held.textOf(name) === text) continue;
    if (isNew(frame, name, text, path)) change.zones[zone] = entry;
  }
  const problems = listProblems(findings);
  if (problems.length > 0) return { misfit: false, problems };
  if (type === "snapshot") {
    held.eachName((name) => {
      pause();
      if (seen[name] === true) return;
      const entry = goneEntry(name);
      if (entry === undefined) return;
      change.gone.push(entry);
      gone.push(name);
    });
    // The bans of a policy that is gone are gone with it, unless they are set again.
    for (const { ban, text } of keptBans) {
      const policy = policyOfBan(ban);
      if (policy === undefined || seen[policy] === true) continue;
      change.bans.push(ban);
      set.push({ name: nameOfBan(ban), text });
    }
  }
  return { frame: { type, change, set, gone, policyCount }, misfit: false, problems };
}

/** What was read and found valid before, and stored. */
export interface StoredChange {
  readonly position: Position;
  readonly set: readonly EntryText[];
  readonly gone: readonly GoneEntry[];
  /** True: this same code has found it valid, so policies are not validated again. */
  readonly isValid: boolean;
}

/**
 * Makes a change of what was stored. Policies are read when they are compiled: ten thousand would take twice the memory if all were read
 * first.
 *
 * @param findings gets what is wrong all the same
 */
export function entriesChange(
  { position, set, gone, isValid }: StoredChange,
  { decode }: JsonCodec,
  findings: Findings,
  pause: Pause,
): Change {
  const written: EntryText[] = [];
  const read = isValid ? readValidPolicyEntry : readPolicyEntry;
  const change = newChange(position, {
    entries: written,
    read: ({ name, text }) => read(decode(text), name, findings),
  });
  for (const one of gone) change.gone.push(one);
  for (const entry of set) {
    const { name } = entry;
    const kind = kindOf(name);
    pause();
    if (kind === "policy") {
      written.push(entry);
      continue;
    }
    const value = decode(entry.text);
    if (kind === "app") add(change.apps, readAppEntry(value, name, findings));
    else if (kind === "networks") add(change.networks, readNetworksEntry(value, name, findings, pause));
    else if (kind === "ban") add(change.bans, readBanEntry(value, name, findings));
    else if (kind === "caller") add(change.callers, readCallerEntry(value, name, findings));
    else {
      const zone = name.slice(2);
      const transitions = readZoneEntry(zone, value, name, findings);
      if (transitions !== undefined) change.zones[zone] = transitions;
    }
  }
  return change;
}

function add<Entry>(list: Entry[], entry: Entry | undefined): void {
  if (entry !== undefined) list.push(entry);
}

/** @returns undefined for a time zone, which does no harm if it stays */
export function goneEntry(name: string): GoneEntry | undefined {
  const kind = name.charAt(0);
  const rest = name.slice(2);
  if (kind === "a") return { app: rest };
  if (kind === "b") return { ban: rest };
  if (kind === "c") return { caller: rest };
  if (kind === "n") {
    const [app = "", networks = "", from = ""] = rest.split(":");
    return { app, networks, from };
  }
  if (kind !== "p") return undefined;
  const colon = rest.indexOf(":");
  return { app: rest.slice(0, colon), policy: rest.slice(colon + 1) };
}

/** No revision can follow one beyond 2^53: a gateway that accepted it would accept no other. */
function isRevision(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value < 2 ** 53 && Math.floor(value) === value;
}
