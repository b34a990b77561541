// Loads a snapshot: turns its text or its decoded value into the set by which requests are decided. Every policy is validated
// again, compiled and indexed; bans and callers are validated as well. A snapshot is accepted whole or refused whole. It is
// loaded in short steps, and what it shares with the previous snapshot is not built again.

import { noPause, type Pause } from "../basics/pause.ts";
import { emptyTable } from "../basics/table.ts";
import { type BansByPlace, bansOn, type SnapshotBan, sortBans } from "../compiled/bans.ts";
import { type CompiledPolicy, compilePolicy } from "../compiled/compile.ts";
import type { Policy } from "../document/policy.ts";
import { isName, nameRule } from "../document/policy-shape.ts";
import { addProblem, type Findings, listProblems, noFindings, type Problem } from "../document/problems.ts";
import type { Zones } from "../document/schedule.ts";
import { describeValue, validatePolicy } from "../document/validate.ts";
import { indexPolicies, type PolicyIndex } from "../index/policy-index.ts";
import type { Networks } from "../key/networks.ts";
import { readBans, readCallers } from "./bans-and-callers.ts";
import { addLine, noLines, type PoliciesByLine, policyOfLine } from "./policies-by-line.ts";
import { type SnapshotCaller, snapshotFormat } from "./push-messages.ts";
import { readApps, type SnapshotApps, trafficOf } from "./snapshot-apps.ts";
import { isComplete, type LineTaker, newLineReader, takeLine } from "./snapshot-lines.ts";

export type { SnapshotBan } from "../compiled/bans.ts";
export type { SnapshotCaller } from "./push-messages.ts";

export interface CompiledSnapshot {
  readonly epoch: string;
  readonly revision: number;
  /** Proves to its control plane where the snapshot is from; undefined: it had no proof. */
  readonly proof: string | undefined;
  readonly policies: readonly CompiledPolicy[];
  readonly policiesByName: PoliciesByName;
  readonly index: PolicyIndex;
  /** Bans that are over may be among them: check `untilSeconds`. */
  readonly bans: readonly SnapshotBan[];
  /** Networks whose requests are refused, whatever they ask for. Undefined: there are none. */
  readonly bannedEverywhere: Networks | undefined;
  readonly callers: readonly SnapshotCaller[];
  /** For loading the next snapshot. Undefined: this one was not read by lines. */
  readonly source: SnapshotSource | undefined;
}

/** Policies by app, then by name. */
export type PoliciesByName = Readonly<Record<string, Readonly<Record<string, CompiledPolicy>>>>;

/** What the next snapshot may reuse of this one. */
export interface SnapshotSource {
  readonly banLines: readonly string[];
  readonly bansByPlace: BansByPlace;
  readonly policiesByLine: PoliciesByLine;
}

export interface SnapshotLoad {
  /** Present when there are no problems. */
  snapshot?: CompiledSnapshot;
  problems: Problem[];
}

/** Never throws. @param message as parsed from JSON; it may come from anyone */
export function loadSnapshot(message: unknown, pause: Pause = noPause): SnapshotLoad {
  if (typeof message !== "object" || message === null) {
    return { problems: [{ path: "", expected: "a snapshot", got: describeValue(message) }] };
  }
  const { policies, apps, bans, callers } = message as Json;
  const load = beginLoad(message as Json, undefined);
  if (!load.broken && !Array.isArray(policies)) {
    addProblem(load.findings, { path: "policies", expected: "a list", got: describeValue(policies) });
    load.broken = true;
  }
  if (load.broken) return { problems: listProblems(load.findings) };
  load.apps = readApps(apps, load.findings, pause);
  takeBans(load, readBans(bans, load.findings, pause));
  for (const entry of policies as unknown[]) {
    addPolicy(load, readPolicy(load, entry));
    pause();
  }
  return endLoad(load, callers, undefined, pause);
}

/**
 * Reads the same from a text with the layout that snapshot-lines.ts describes.
 *
 * @param chunkAt returns the text in pieces that end where lines end, from 0 on; undefined after the last
 * @param decode decodes JSON; undefined: it is not JSON
 * @param previous policies and bans whose lines are the same are taken from it
 * @returns undefined: the text has another layout, or is not JSON
 */
export function loadSnapshotLines(
  chunkAt: (this: void, place: number) => string | undefined,
  decode: (this: void, text: string) => unknown,
  previous: CompiledSnapshot | undefined,
  pause: Pause,
): SnapshotLoad | undefined {
  const lines = newLineReader();
  const texts = { apps: [] as string[], bans: [] as string[], callers: [] as string[] };
  const policiesByLine = noLines();
  let load: Load | undefined;
  const taker: LineTaker = {
    head(text) {
      const head = decode(text);
      if (typeof head !== "object" || head === null || Array.isArray(head)) return false;
      const { apps, bans, callers, policies } = head as Json;
      if (apps !== undefined || bans !== undefined || callers !== undefined || policies !== undefined) return false;
      load = beginLoad(head as Json, previous);
      return true;
    },
    begin(list) {
      if (list !== "policies" || load === undefined) return true;
      return appsFromLines(load, texts.apps, decode, pause) && bansFromLines(load, texts.bans, decode, pause);
    },
    entry(list, text) {
      if (list !== "policies") {
        texts[list].push(text);
        return true;
      }
      return load === undefined || policyFromLine(load, text, decode, policiesByLine);
    },
  };
  for (let place = 0; ; place++) {
    const chunk = chunkAt(place);
    if (chunk === undefined) break;
    let from = 0;
    while (from < chunk.length) {
      const end = chunk.indexOf("\n", from);
      if (end < 0 || !takeLine(lines, chunk.slice(from, end), taker)) return undefined;
      // The format determines how to read the rest: in another format the lines mean nothing.
      if (load?.broken === true) return { problems: listProblems(load.findings) };
      from = end + 1;
      pause();
    }
  }
  if (!isComplete(lines) || load === undefined) return undefined;
  const callers = decodeAll(texts.callers, decode, pause);
  if (callers === undefined) return undefined;
  const { bansByPlace } = load;
  return endLoad(load, callers, { banLines: texts.bans, bansByPlace, policiesByLine }, pause);
}

type Json = Record<string, unknown>;

/** A snapshot while it is loaded. */
interface Load {
  readonly findings: Findings;
  readonly epoch: string;
  readonly revision: number;
  readonly proof: string | undefined;
  /** The snapshot has another format, or its zones or policies are of the wrong type: nothing more can be checked. */
  broken: boolean;
  readonly zones: Zones;
  readonly previous: CompiledSnapshot | undefined;
  apps: SnapshotApps;
  /** True if the bans are those of the previous snapshot. */
  sameBans: boolean;
  bans: readonly SnapshotBan[];
  bansByPlace: BansByPlace;
  /** How many policies have been read. */
  entries: number;
  readonly policies: CompiledPolicy[];
  readonly policiesByName: Record<string, Record<string, CompiledPolicy>>;
}

function beginLoad(head: Json, previous: CompiledSnapshot | undefined): Load {
  const findings = noFindings();
  const { format, epoch, revision, proof, zones = {} } = head;
  let broken = false;
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
  }
  return {
    findings,
    epoch: epoch as string,
    revision: revision as number,
    // The proof is not interpreted here, so a proof of the wrong type is dropped without a problem.
    proof: typeof proof === "string" ? proof : undefined,
    broken,
    zones: zones as Zones,
    previous,
    apps: emptyTable(),
    sameBans: false,
    bans: [],
    bansByPlace: sortBans([]),
    entries: 0,
    policies: [],
    policiesByName: emptyTable(),
  };
}

function takeBans(load: Load, bans: readonly SnapshotBan[]): void {
  load.bans = bans;
  if (load.findings.problems.length === 0) load.bansByPlace = sortBans(bans);
}

/** @returns false: a line is not JSON */
function appsFromLines(
  load: Load,
  lines: readonly string[],
  decode: (this: void, text: string) => unknown,
  pause: Pause,
): boolean {
  const entries = decodeAll(lines, decode, pause);
  if (entries !== undefined) load.apps = readApps(entries, load.findings, pause);
  return entries !== undefined;
}

/** @returns false: a line is not JSON */
function bansFromLines(
  load: Load,
  lines: readonly string[],
  decode: (this: void, text: string) => unknown,
  pause: Pause,
): boolean {
  const { previous } = load;
  if (previous?.source !== undefined && isSameList(previous.source.banLines, lines)) {
    load.sameBans = true;
    load.bans = previous.bans;
    load.bansByPlace = previous.source.bansByPlace;
    return true;
  }
  const entries = decodeAll(lines, decode, pause);
  if (entries === undefined) return false;
  takeBans(load, readBans(entries, load.findings, pause));
  return true;
}

/** @returns undefined: one of the texts is not JSON */
function decodeAll(
  texts: readonly string[],
  decode: (this: void, text: string) => unknown,
  pause: Pause,
): unknown[] | undefined {
  const entries: unknown[] = [];
  for (const text of texts) {
    const entry = decode(text);
    if (entry === undefined) return undefined;
    entries.push(entry);
    pause();
  }
  return entries;
}

/** @returns false: the line is not JSON */
function policyFromLine(
  load: Load,
  line: string,
  decode: (this: void, text: string) => unknown,
  policiesByLine: PoliciesByLine,
): boolean {
  const before = load.previous?.source?.policiesByLine;
  const known = before === undefined ? undefined : policyOfLine(before, line);
  let policy: CompiledPolicy | undefined;
  if (known !== undefined) {
    policy = isStillTrue(load, known) ? known : compileIn(load, known.app, known.policy);
  } else {
    const entry = decode(line);
    if (entry === undefined) return false;
    policy = readPolicy(load, entry);
  }
  if (policy !== undefined) addLine(policiesByLine, line, policy);
  addPolicy(load, policy);
  return true;
}

/** Returns whether everything that the policy was compiled with, besides its own document, is known to be the same. */
function isStillTrue({ sameBans, bansByPlace }: Load, { app, policy, bans, schedule }: CompiledPolicy): boolean {
  if (schedule !== undefined) return false;
  return sameBans || (bans === undefined && bansOn(bansByPlace, app, policy.name, policy.key) === undefined);
}

/** @param policy undefined: it has a problem */
function addPolicy(load: Load, policy: CompiledPolicy | undefined): void {
  load.entries += 1;
  if (policy === undefined) return;
  const { policies, policiesByName } = load;
  policies.push(policy);
  const ofApp = policiesByName[policy.app] ?? emptyTable<CompiledPolicy>();
  policiesByName[policy.app] = ofApp;
  ofApp[policy.policy.name] = policy;
}

function readPolicy(load: Load, entry: unknown): CompiledPolicy | undefined {
  const { findings } = load;
  const path = `policies[${load.entries}]`;
  if (typeof entry !== "object" || entry === null) {
    addProblem(findings, { path, expected: "an object", got: describeValue(entry) });
    return undefined;
  }
  const { app, document } = entry as Json;
  if (typeof app !== "string" || !isName(app)) {
    addProblem(findings, { path: `${path}.app`, expected: nameRule, got: describeValue(app) });
    return undefined;
  }
  const validation = validatePolicy(document);
  for (const problem of validation.problems) {
    const inner = problem.path === "" ? "" : `.${problem.path}`;
    addProblem(findings, { path: `${path}.document${inner}`, expected: problem.expected, got: problem.got });
  }
  return validation.policy === undefined ? undefined : compileIn(load, app, validation.policy);
}

/** @returns undefined if the zone of its schedule is missing */
function compileIn({ zones, bansByPlace, findings }: Load, app: string, policy: Policy): CompiledPolicy | undefined {
  if (policy.schedule !== undefined && !checkZone(policy.schedule.timezone, zones, findings)) return undefined;
  return compilePolicy(app, policy, zones, bansOn(bansByPlace, app, policy.name, policy.key));
}

function endLoad(
  { findings, epoch, revision, proof, policies, policiesByName, apps, bans, bansByPlace }: Load,
  callers: unknown,
  source: SnapshotSource | undefined,
  pause: Pause,
): SnapshotLoad {
  const callersRead = readCallers(callers, findings, pause);
  const problems = listProblems(findings);
  if (problems.length > 0) return { problems };
  const index = indexPolicies(trafficOf(policies, apps, bansByPlace, pause), pause);
  return {
    snapshot: {
      epoch,
      revision,
      proof,
      policies,
      policiesByName,
      index,
      bans,
      bannedEverywhere: bansByPlace.everywhere,
      callers: callersRead,
      source,
    },
    problems,
  };
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) return false;
  }
  return true;
}

/** Checks only zones that schedules name. */
function checkZone(timezone: string, zones: Zones, findings: Findings): boolean {
  const transitions: unknown = zones[timezone];
  if (Array.isArray(transitions) && transitions.length > 0 && transitions.every((entry) => isTransition(entry)))
    return true;
  addProblem(findings, {
    path: `zones.${timezone}`,
    expected: "a list of [seconds since the epoch, minutes before UTC]",
    got: describeValue(transitions),
  });
  return false;
}

function isTransition(entry: unknown): boolean {
  if (!Array.isArray(entry) || entry.length !== 2) return false;
  const [fromSeconds, offsetMinutes] = entry;
  return isWhole(fromSeconds) && isWhole(offsetMinutes) && offsetMinutes > -1440 && offsetMinutes < 1440;
}

/** No revision can follow one beyond 2^53: a gateway that accepted it would accept no other. */
function isRevision(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value < 2 ** 53 && Math.floor(value) === value;
}

function isWhole(value: unknown): value is number {
  return typeof value === "number" && Math.floor(value) === value;
}
