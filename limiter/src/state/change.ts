// Changes a state of policies by what is set and what is gone, at a cost that grows with the change and not with the state. A change
// is prepared in short steps, between which the state decides requests as before, and comes into force in one step.
//
// What a policy is compiled with besides its own document is the time zones that it goes by, the bans of its key values, whether
// its app bans networks, and whom its app and app `default` exempt. A policy is compiled again only if one of these has changed. Lists of
// networks are not among them: whoever refers to one looks it up.

import type { Pause } from "../basics/pause.ts";
import { emptyTable } from "../basics/table.ts";
import { type PolicyBans, policyBans, type SnapshotBan } from "../compiled/bans.ts";
import { type CompiledPolicy, compilePolicy, policyOf } from "../compiled/compile.ts";
import { type AppExemptions, appExemptions } from "../compiled/exemptions.ts";
import type { Policy } from "../document/policy.ts";
import { addProblem, type Findings } from "../document/problems.ts";
import type { ZoneTransition } from "../document/schedule.ts";
import { timezonesOf } from "../document/timezones.ts";
import { addToIndex, indexPolicies, type PolicyIndex, removeFromIndex } from "../index/policy-index.ts";
import { type AppNetworks, forgetIfUnused, noAppNetworks, policyOfBan, removeBan, setBan } from "./ban-book.ts";
import { type ChangedLists, changedLists } from "./changed-lists.ts";
import {
  type AppPolicy,
  type EntryText,
  type GoneEntry,
  nameOfPolicy,
  type SnapshotApp,
  type SnapshotCaller,
  type SnapshotNetworks,
} from "./entries.ts";
import { type PolicyState, type Position, policyNamed } from "./policy-state.ts";
import { banEntryOf, isMetByRequests } from "./traffic.ts";

/** What is gone is gone before anything is set: an entry may be in both. In each list, an entry is there once. */
export interface Change {
  position: Position;
  readonly gone: GoneEntry[];
  readonly zones: Record<string, readonly ZoneTransition[]>;
  readonly apps: SnapshotApp[];
  /** Blocks of lists. */
  readonly networks: SnapshotNetworks[];
  readonly bans: SnapshotBan[];
  readonly callers: SnapshotCaller[];
  readonly policies: AppPolicy[];
  /** More policies. */
  readonly written: WrittenPolicies;
}

/** Policies that are read when they are compiled. */
export interface WrittenPolicies {
  readonly entries: readonly EntryText[];
  /** @returns undefined: it is invalid, and that is reported */
  read(this: void, entry: EntryText): AppPolicy | undefined;
}

const noneWritten: WrittenPolicies = { entries: [], read: () => undefined };

export function newChange(position: Position, written = noneWritten): Change {
  return {
    position,
    gone: [],
    zones: emptyTable(),
    apps: [],
    networks: [],
    bans: [],
    callers: [],
    policies: [],
    written,
  };
}

/** A change that can come into force at once. */
export interface PreparedChange {
  readonly change: Change;
  /** By app. Undefined: the app is not listed any more. */
  readonly apps: Record<string, { readonly entry: SnapshotApp | undefined }>;
  /** By app, where they change. Undefined: it does not exempt anybody any more. */
  readonly exemptions: Record<string, { readonly after: AppExemptions | undefined }>;
  readonly networkLists: ChangedLists;
  /** Ids of bans that are gone, with those of policies that are. */
  readonly bansGone: readonly string[];
  /** The objects for apps that had banned no network. */
  readonly newNetworks: Record<string, AppNetworks>;
  /** Apps whose bans of networks have changed. */
  readonly appsOfBans: readonly string[];
  /** Records that are not in force any more, and those that come into force. */
  readonly policiesGone: readonly CompiledPolicy[];
  readonly policiesSet: readonly CompiledPolicy[];
  /** How many policies there will be. */
  readonly policyCount: number;
  /** What the index loses and gets. Not used if there is a new index. */
  readonly indexLoses: readonly CompiledPolicy[];
  readonly indexGets: readonly CompiledPolicy[];
  /** Undefined: the present one is changed. */
  readonly index: PolicyIndex | undefined;
  readonly banEntries: Record<string, { readonly entry: CompiledPolicy | undefined }>;
}

/**
 * More changes of the index than this are not made in one step, which would take too long: a new index is made instead, in short
 * steps. One change takes some 2 µs.
 */
const mostIndexChangesAtOnce = 200;

/**
 * Compiles what a change needs. Until `commitChange`, nothing else may change the state.
 *
 * @param findings gets what is wrong with the change as a whole; if there is anything, the change must not be committed
 */
export function prepareChange(state: PolicyState, change: Change, findings: Findings, pause: Pause): PreparedChange {
  const plan = newPlan(state, change);
  planGone(plan, pause);
  planApps(plan, pause);
  const lists = changedLists(state.networkLists, change.gone, change.networks, findings, pause);
  planExemptions(plan, pause);
  planBans(plan, pause);
  planZones(plan, pause);
  compileSet(plan, findings, pause);
  compileConcerned(plan, findings, pause);
  planBanEntries(plan);
  return preparedFrom(plan, lists, pause);
}

/** Puts a prepared change into force. It does not yield, and cannot fail. */
export function commitChange(state: PolicyState, prepared: PreparedChange): void {
  const { change, apps, policiesGone, policiesSet } = prepared;
  for (const name in apps) {
    const { entry } = apps[name] as { readonly entry: SnapshotApp | undefined };
    if (entry === undefined) delete state.apps[name];
    else state.apps[name] = entry;
  }
  for (const app in prepared.exemptions) {
    const { after } = prepared.exemptions[app] as { readonly after: AppExemptions | undefined };
    if (after === undefined) delete state.exemptions[app];
    else state.exemptions[app] = after;
  }
  for (const list in prepared.networkLists) {
    const { after } = prepared.networkLists[list] as ChangedLists[string];
    if (after === undefined) delete state.networkLists[list];
    else state.networkLists[list] = after;
  }
  for (const zone in change.zones) state.zones[zone] = change.zones[zone] as readonly ZoneTransition[];
  commitBans(state, prepared);
  commitCallers(state, change);
  for (const { app, name } of policiesGone) removePolicy(state, app, name);
  for (const policy of policiesSet) setPolicy(state, policy);
  if (prepared.index !== undefined) {
    state.index = prepared.index;
  } else {
    for (const policy of prepared.indexLoses) removeFromIndex(state.index, policy);
    for (const policy of prepared.indexGets) addToIndex(state.index, policy);
  }
  for (const app in prepared.banEntries) {
    const { entry } = prepared.banEntries[app] as { readonly entry: CompiledPolicy | undefined };
    if (entry === undefined) delete state.banEntries[app];
    else state.banEntries[app] = entry;
  }
  state.position = change.position;
}

function commitCallers(state: PolicyState, { gone, callers }: Change): void {
  let changes = callers.length > 0;
  for (const one of gone) {
    if (!("caller" in one)) continue;
    delete state.callers[one.caller];
    changes = true;
  }
  for (const caller of callers) state.callers[caller.sha256] = caller;
  if (changes) state.callersVersion += 1;
}

/** In Lua, what is absent cannot be iterated over. */
const nothing: Readonly<Record<string, never>> = emptyTable();

/** The app whose banned networks are refused everywhere, and whose exemptions hold for all apps. */
const appOfEverything = "default";

function commitBans(state: PolicyState, { change, bansGone, newNetworks, appsOfBans }: PreparedChange): void {
  const { bans } = state;
  for (const app in newNetworks) bans.networksByApp[app] = newNetworks[app] as AppNetworks;
  for (const id of bansGone) removeBan(bans, id);
  for (const ban of change.bans) setBan(bans, ban);
  for (const app of appsOfBans) forgetIfUnused(bans, app);
  state.bannedEverywhere = bans.networksByApp[appOfEverything]?.networks;
}

function removePolicy(state: PolicyState, app: string, name: string): void {
  const ofApp = state.policiesByName[app];
  if (ofApp?.[name] === undefined) return;
  delete ofApp[name];
  state.policyCount -= 1;
  for (const _ in ofApp) return;
  delete state.policiesByName[app];
}

function setPolicy(state: PolicyState, policy: CompiledPolicy): void {
  const { app, name } = policy;
  const ofApp = state.policiesByName[app] ?? emptyTable<CompiledPolicy>();
  state.policiesByName[app] = ofApp;
  if (ofApp[name] === undefined) state.policyCount += 1;
  ofApp[name] = policy;
}

/** A change while it is prepared. */
interface Plan {
  readonly state: PolicyState;
  readonly change: Change;
  readonly apps: Record<string, { readonly entry: SnapshotApp | undefined }>;
  readonly exemptions: Record<string, { readonly after: AppExemptions | undefined }>;
  /** Names of the policies that the change sets. */
  readonly set: Record<string, boolean>;
  readonly policiesGone: CompiledPolicy[];
  readonly policiesSet: CompiledPolicy[];
  /** The records that are replaced or gone, by name. */
  readonly replaced: Record<string, Replaced>;
  /** Policies that stay and are compiled again, by name. */
  readonly concerned: Record<string, CompiledPolicy>;
  readonly bansGone: string[];
  readonly isBanGone: Record<string, boolean>;
  /** The new bans of policies, by the policy's name. */
  readonly newBansOfPolicies: Record<string, SnapshotBan[]>;
  /** Apps whose bans of networks change: by how many, and whether there are any afterwards. */
  readonly networkBans: Record<string, { change: number }>;
  readonly newNetworks: Record<string, AppNetworks>;
  readonly banEntries: Record<string, { readonly entry: CompiledPolicy | undefined }>;
  readonly indexLoses: CompiledPolicy[];
  readonly indexGets: CompiledPolicy[];
}

interface Replaced {
  readonly before: CompiledPolicy;
}

function newPlan(state: PolicyState, change: Change): Plan {
  return {
    state,
    change,
    apps: emptyTable(),
    exemptions: emptyTable(),
    set: emptyTable(),
    policiesGone: [],
    policiesSet: [],
    replaced: emptyTable(),
    concerned: emptyTable(),
    bansGone: [],
    isBanGone: emptyTable(),
    newBansOfPolicies: emptyTable(),
    networkBans: emptyTable(),
    newNetworks: emptyTable(),
    banEntries: emptyTable(),
    indexLoses: [],
    indexGets: [],
  };
}

function planGone(plan: Plan, pause: Pause): void {
  const { state, change, apps, set, policiesGone, replaced } = plan;
  for (const { app, policy } of change.policies) set[nameOfPolicy(app, policy.name)] = true;
  for (const { name } of change.written.entries) set[name] = true;
  for (const gone of change.gone) {
    pause();
    if ("ban" in gone) {
      planBanGone(plan, gone.ban);
    } else if ("policy" in gone) {
      const name = nameOfPolicy(gone.app, gone.policy);
      for (const id in state.bans.byPolicy[name] ?? nothing) planBanGone(plan, id);
      const before = policyNamed(state, gone.app, gone.policy);
      if (before === undefined || set[name] === true) continue;
      policiesGone.push(before);
      replaced[name] = { before };
    } else if ("app" in gone && !("networks" in gone)) {
      apps[gone.app] = { entry: undefined };
    }
  }
}

function planBanGone(plan: Plan, id: string): void {
  const ban = plan.state.bans.byId[id];
  if (ban === undefined || plan.isBanGone[id] === true) return;
  plan.isBanGone[id] = true;
  plan.bansGone.push(id);
  noteBan(plan, ban, -1);
}

/** Notes whom a ban concerns that comes or goes. */
function noteBan({ state, networkBans, concerned }: Plan, ban: SnapshotBan, by: number): void {
  const policy = policyOfBan(ban);
  if (policy === undefined) {
    const counted = networkBans[ban.app] ?? { change: 0 };
    networkBans[ban.app] = counted;
    counted.change += by;
    return;
  }
  const known = policyNamed(state, ban.app, ban.policy as string);
  if (known !== undefined) concerned[policy] = known;
}

function planApps({ change, apps }: Plan, pause: Pause): void {
  for (const entry of change.apps) {
    apps[entry.app] = { entry };
    pause();
  }
}

/** Policies are compiled again if their app comes to exempt others, and all policies if app `default` does. */
function planExemptions(plan: Plan, pause: Pause): void {
  const { state, apps, exemptions } = plan;
  for (const app in apps) {
    const after = appExemptions((apps[app] as { readonly entry: SnapshotApp | undefined }).entry?.exempt, {
      lists: state.networkLists,
      app,
    });
    pause();
    if (after?.text === state.exemptions[app]?.text) continue;
    exemptions[app] = { after };
    if (app !== appOfEverything) planAllOfApp(plan, app, pause);
  }
  if (exemptions[appOfEverything] === undefined) return;
  for (const app in state.policiesByName) planAllOfApp(plan, app, pause);
}

/** Returns the exemptions of apps that hold for the policies of an app after the change. */
function exemptionsAfter({ state, exemptions }: Plan, app: string): readonly AppExemptions[] {
  const found: AppExemptions[] = [];
  const own = exemptions[app] === undefined ? state.exemptions[app] : exemptions[app]?.after;
  if (own !== undefined) found.push(own);
  if (app === appOfEverything) return found;
  const ofAll =
    exemptions[appOfEverything] === undefined ? state.exemptions[appOfEverything] : exemptions[appOfEverything]?.after;
  if (ofAll !== undefined) found.push(ofAll);
  return found;
}

function planBans(plan: Plan, pause: Pause): void {
  const { state, change, newBansOfPolicies, networkBans, newNetworks } = plan;
  for (const ban of change.bans) {
    pause();
    // The former ban of this id is replaced.
    planReplacedBan(plan, ban.id);
    noteBan(plan, ban, 1);
    const policy = policyOfBan(ban);
    if (policy === undefined) continue;
    const bans = newBansOfPolicies[policy] ?? [];
    newBansOfPolicies[policy] = bans;
    bans.push(ban);
  }
  for (const app in networkBans) {
    const before = state.bans.networksByApp[app]?.count ?? 0;
    const after = before + (networkBans[app] as { change: number }).change;
    if (before > 0 === after > 0) continue;
    if (after > 0) newNetworks[app] = noAppNetworks({ lists: state.networkLists, app });
    // The networks of this app are refused before any policy is met: its policies do not know them.
    if (app === appOfEverything) continue;
    planAllOfApp(plan, app, pause);
  }
}

function planReplacedBan(plan: Plan, id: string): void {
  const before = plan.state.bans.byId[id];
  if (before === undefined || plan.isBanGone[id] === true) return;
  plan.isBanGone[id] = true;
  noteBan(plan, before, -1);
}

function planAllOfApp({ state, concerned }: Plan, app: string, pause: Pause): void {
  const ofApp = state.policiesByName[app] ?? nothing;
  for (const name in ofApp) {
    concerned[nameOfPolicy(app, name)] = ofApp[name] as CompiledPolicy;
    pause();
  }
}

/** Time zones change once in years, so policies are searched for those that are in one. */
function planZones(plan: Plan, pause: Pause): void {
  const { state, change, concerned } = plan;
  let changes = false;
  for (const zone in change.zones) if (state.zones[zone] !== undefined) changes = true;
  if (!changes) return;
  for (const app in state.policiesByName) {
    const ofApp = state.policiesByName[app];
    for (const name in ofApp) {
      const policy = ofApp[name] as CompiledPolicy;
      const { written } = policy;
      if (written !== undefined && timezonesOf(written).some((timezone) => change.zones[timezone] !== undefined)) {
        concerned[nameOfPolicy(app, name)] = policy;
      }
      pause();
    }
  }
}

function compileSet(plan: Plan, findings: Findings, pause: Pause): void {
  const { policies, written } = plan.change;
  for (const set of policies) {
    compileOne(plan, set, findings, pause);
    pause();
  }
  for (const entry of written.entries) {
    const set = written.read(entry);
    if (set !== undefined) compileOne(plan, set, findings, pause);
    pause();
  }
}

function compileOne(plan: Plan, { app, policy }: AppPolicy, findings: Findings, pause: Pause): void {
  const after = compileIn(plan, app, policy, findings, pause);
  if (after === undefined) return;
  const before = policyNamed(plan.state, app, policy.name);
  if (before !== undefined) plan.replaced[nameOfPolicy(app, policy.name)] = { before };
  plan.policiesSet.push(after);
}

/** Compiles policies again that stay as they are written. */
function compileConcerned(plan: Plan, findings: Findings, pause: Pause): void {
  const { concerned, replaced, set, policiesSet } = plan;
  for (const name in concerned) {
    if (set[name] === true || replaced[name] !== undefined) continue;
    const before = concerned[name] as CompiledPolicy;
    const after = compileIn(plan, before.app, policyOf(before), findings, pause);
    pause();
    if (after === undefined) continue;
    replaced[name] = { before };
    policiesSet.push(after);
  }
}

const noZones = emptyTable<readonly ZoneTransition[]>();

/** @returns undefined if one of its time zones is missing */
function compileIn(
  plan: Plan,
  app: string,
  policy: Policy,
  findings: Findings,
  pause: Pause,
): CompiledPolicy | undefined {
  const timezones = timezonesOf(policy);
  const zones = timezones.length === 0 ? noZones : emptyTable<readonly ZoneTransition[]>();
  for (const timezone of timezones) {
    const transitions = plan.change.zones[timezone] ?? plan.state.zones[timezone];
    if (transitions === undefined) {
      addProblem(findings, {
        path: `zones.${timezone}`,
        expected: "a list of [seconds since the epoch, minutes ahead of UTC]",
        got: "nothing",
      });
      return undefined;
    }
    zones[timezone] = transitions;
  }
  const bans = bansAfter(plan, app, policy, pause);
  const { networkLists } = plan.state;
  return compilePolicy(app, policy, zones, bans, pause, exemptionsAfter(plan, app), networkLists);
}

/** Returns the bans that a policy has after the change. */
function bansAfter(
  { state, isBanGone, newBansOfPolicies, networkBans, newNetworks }: Plan,
  app: string,
  policy: Policy,
  pause: Pause,
): PolicyBans | undefined {
  const name = nameOfPolicy(app, policy.name);
  const known = state.bans.byPolicy[name] ?? nothing;
  const added = newBansOfPolicies[name];
  const bans: SnapshotBan[] = [];
  for (const id in known) {
    if (isBanGone[id] !== true) bans.push(known[id] as SnapshotBan);
    pause();
  }
  for (const ban of added ?? []) bans.push(ban);
  if (app === appOfEverything) return policyBans(undefined, bans, policy.key, pause);
  const before = state.bans.networksByApp[app];
  const count = (before?.count ?? 0) + (networkBans[app]?.change ?? 0);
  const networks = count === 0 ? undefined : (newNetworks[app] ?? before)?.networks;
  return policyBans(networks, bans, policy.key, pause);
}

/** An entry of the index carries the bans of an app with a realm. */
function planBanEntries(plan: Plan): void {
  const { state, apps, networkBans, banEntries, indexLoses, indexGets } = plan;
  const names = emptyTable<boolean>();
  for (const app in apps) names[app] = true;
  for (const app in networkBans) names[app] = true;
  for (const app in names) {
    const listed = appAfter(plan, app);
    const book = state.bans.networksByApp[app];
    const count = (book?.count ?? 0) + (networkBans[app]?.change ?? 0);
    const networks = count === 0 || app === appOfEverything ? undefined : (plan.newNetworks[app] ?? book)?.networks;
    const before = state.banEntries[app];
    // The entry refers to the networks, which change beneath it.
    if (apps[app] === undefined && (before !== undefined) === (networks !== undefined)) continue;
    const entry = banEntryOf(listed, networks);
    if (before !== undefined) indexLoses.push(before);
    if (entry !== undefined) indexGets.push(entry);
    banEntries[app] = { entry };
  }
}

function preparedFrom(plan: Plan, networkLists: ChangedLists, pause: Pause): PreparedChange {
  const { state, change, apps, replaced, policiesSet, indexLoses, indexGets } = plan;
  for (const name in replaced) {
    const { before } = replaced[name] as Replaced;
    if (isMetByRequests(before, state.apps[before.app])) indexLoses.push(before);
    pause();
  }
  for (const policy of policiesSet) {
    if (isMetByRequests(policy, appAfter(plan, policy.app))) indexGets.push(policy);
    pause();
  }
  for (const app in apps) planRealm(plan, app, pause);
  let policyCount = state.policyCount - plan.policiesGone.length;
  for (const { app, name } of policiesSet) if (policyNamed(state, app, name) === undefined) policyCount += 1;
  const appsOfBans: string[] = [];
  for (const app in plan.networkBans) appsOfBans.push(app);
  return {
    change,
    apps,
    exemptions: plan.exemptions,
    networkLists,
    bansGone: plan.bansGone,
    newNetworks: plan.newNetworks,
    appsOfBans,
    policiesGone: plan.policiesGone,
    policiesSet,
    policyCount,
    indexLoses,
    indexGets,
    index: indexLoses.length + indexGets.length > mostIndexChangesAtOnce ? indexAfter(plan, pause) : undefined,
    banEntries: plan.banEntries,
  };
}

function appAfter({ state, apps }: Plan, app: string): SnapshotApp | undefined {
  const changed = apps[app];
  return changed === undefined ? state.apps[app] : changed.entry;
}

/** Policies that stay come into the index, or leave it, if their app gets a realm or loses it. */
function planRealm(plan: Plan, app: string, pause: Pause): void {
  const { state, replaced, indexLoses, indexGets } = plan;
  const after = appAfter(plan, app);
  const ofApp = state.policiesByName[app] ?? nothing;
  for (const name in ofApp) {
    const policy = ofApp[name] as CompiledPolicy;
    pause();
    if (replaced[nameOfPolicy(app, name)] !== undefined) continue;
    const wasMet = isMetByRequests(policy, state.apps[app]);
    if (wasMet === isMetByRequests(policy, after)) continue;
    if (wasMet) indexLoses.push(policy);
    else indexGets.push(policy);
  }
}

function indexAfter(plan: Plan, pause: Pause): PolicyIndex {
  const { state, replaced, policiesSet, banEntries } = plan;
  const met: CompiledPolicy[] = [];
  for (const app in state.policiesByName) {
    const ofApp = state.policiesByName[app];
    const entry = appAfter(plan, app);
    for (const name in ofApp) {
      const policy = ofApp[name] as CompiledPolicy;
      if (replaced[nameOfPolicy(app, name)] === undefined && isMetByRequests(policy, entry)) met.push(policy);
      pause();
    }
  }
  for (const policy of policiesSet) {
    if (isMetByRequests(policy, appAfter(plan, policy.app))) met.push(policy);
    pause();
  }
  for (const app in state.banEntries) {
    if (banEntries[app] === undefined) met.push(state.banEntries[app] as CompiledPolicy);
  }
  for (const app in banEntries) {
    const { entry } = banEntries[app] as { readonly entry: CompiledPolicy | undefined };
    if (entry !== undefined) met.push(entry);
  }
  return indexPolicies(met, pause);
}
