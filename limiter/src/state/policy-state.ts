// The policies in force, with everything by which they decide: the apps, bans, callers and time zones. A change (change.ts) is
// prepared beside it in short steps, and then comes into force as a whole. What did not change stays the object that it was.

import { emptyTable } from "../basics/table.ts";
import type { CompiledPolicy } from "../compiled/compile.ts";
import type { AppExemptions } from "../compiled/exemptions.ts";
import type { ZoneTransition } from "../document/schedule.ts";
import { indexPolicies, type PolicyIndex } from "../index/policy-index.ts";
import type { RangeBlocks } from "../key/address-ranges.ts";
import type { NetworkLists } from "../key/network-lists.ts";
import type { Networks } from "../key/networks.ts";
import { type BanBook, noBans } from "./ban-book.ts";
import type { SnapshotApp, SnapshotCaller } from "./entries.ts";

/** Where in which history a state is from. */
export interface Position {
  /** Names the history that `revision` counts in; empty: the state is from nowhere. */
  readonly epoch: string;
  readonly revision: number;
  /**
   * Names the way in which the control plane made the state of what it stores: by its version and its time zone data, for example.
   * Of two editions, states of one revision may differ. Undefined: the control plane did not say.
   */
  readonly edition: string | undefined;
  /** Proves to its control plane where the state is from; undefined: it had no proof. */
  readonly proof: string | undefined;
}

export interface PolicyState {
  position: Position;
  policyCount: number;
  /** Policies by app, then by name. */
  readonly policiesByName: Record<string, Record<string, CompiledPolicy>>;
  /** The listed apps, by name. */
  readonly apps: Record<string, SnapshotApp>;
  /** Policies, exemptions and bans refer to this object, whatever is in it. */
  readonly networkLists: NetworkLists;
  /** Of the apps that exempt anybody. Policies are compiled with them. */
  readonly exemptions: Record<string, AppExemptions>;
  readonly zones: Record<string, readonly ZoneTransition[]>;
  /** Bans that are over may be among them. */
  readonly bans: BanBook;
  /** Networks whose requests are refused, whatever they ask for. Undefined: there are none. */
  bannedEverywhere: Networks | undefined;
  /** By the SHA-256 of their token. */
  readonly callers: Record<string, SnapshotCaller>;
  index: PolicyIndex;
  /** What the index has for the bans of apps with a realm, by app. */
  readonly banEntries: Record<string, CompiledPolicy>;
  /** Grows when a caller comes or goes. */
  callersVersion: number;
}

export const nowhere: Position = { epoch: "", revision: 0, edition: undefined, proof: undefined };

export function emptyState(): PolicyState {
  const networkLists = emptyTable<RangeBlocks>();
  return {
    position: nowhere,
    policyCount: 0,
    policiesByName: emptyTable(),
    apps: emptyTable(),
    networkLists,
    exemptions: emptyTable(),
    zones: emptyTable(),
    bans: noBans(networkLists),
    bannedEverywhere: undefined,
    callers: emptyTable(),
    index: indexPolicies([]),
    banEntries: emptyTable(),
    callersVersion: 0,
  };
}

export function policyNamed(state: PolicyState, app: string, name: string): CompiledPolicy | undefined {
  return state.policiesByName[app]?.[name];
}

/** Returns whether two positions are the same, whatever proves them. */
export function isSamePosition(a: Position, b: Position): boolean {
  return a.epoch === b.epoch && a.revision === b.revision && a.edition === b.edition;
}
