// The bans in force, and the networks that each app bans. Bans are added and removed one by one.

import { emptyTable } from "../basics/table.ts";
import type { SnapshotBan } from "../compiled/bans.ts";
import { type Cidr, formatCidr, parseCidr } from "../key/cidr.ts";
import { type ListScope, type NetworkLists, referredList } from "../key/network-lists.ts";
import { type Networks, noNetworks, removeNetwork, setNetwork } from "../key/networks.ts";
import { nameOfPolicy } from "./entries.ts";

export interface BanBook {
  /** What bans of lists refer to. */
  readonly lists: NetworkLists;
  readonly byId: Record<string, SnapshotBan>;
  readonly networksByApp: Record<string, AppNetworks>;
  /** Bans of key values, by the name of their policy, then by id. The policy need not exist. */
  readonly byPolicy: Record<string, BansById>;
}

export type BansById = Record<string, SnapshotBan>;

/** One object as long as the app bans any network: policies are compiled with it. */
export interface AppNetworks {
  readonly networks: Networks;
  /** The bans of each network; there may be several. */
  readonly bans: Record<string, BansById>;
  /** How many bans there are. */
  count: number;
}

export function noBans(lists: NetworkLists): BanBook {
  return { lists, byId: emptyTable(), networksByApp: emptyTable(), byPolicy: emptyTable() };
}

/** Returns the name of the policy whose key values are banned; undefined: a network is banned. */
export function policyOfBan({ app, policy }: SnapshotBan): string | undefined {
  return policy === undefined ? undefined : nameOfPolicy(app, policy);
}

/** Replaces a ban of the same id. */
export function setBan(book: BanBook, ban: SnapshotBan): void {
  removeBan(book, ban.id);
  book.byId[ban.id] = ban;
  const policy = policyOfBan(ban);
  if (policy !== undefined) {
    const bans = book.byPolicy[policy] ?? emptyTable<SnapshotBan>();
    book.byPolicy[policy] = bans;
    bans[ban.id] = ban;
    return;
  }
  const ofApp = book.networksByApp[ban.app] ?? noAppNetworks({ lists: book.lists, app: ban.app });
  book.networksByApp[ban.app] = ofApp;
  const cidr = canonical(ban);
  const bans = ofApp.bans[cidr] ?? emptyTable<SnapshotBan>();
  ofApp.bans[cidr] = bans;
  bans[ban.id] = ban;
  ofApp.count += 1;
  setNetwork(ofApp.networks, cidr, lastEnd(bans) as number);
}

export function removeBan(book: BanBook, id: string): void {
  const ban = book.byId[id];
  if (ban === undefined) return;
  delete book.byId[id];
  const policy = policyOfBan(ban);
  if (policy !== undefined) {
    const bans = book.byPolicy[policy];
    if (bans === undefined) return;
    delete bans[id];
    if (isEmpty(bans)) delete book.byPolicy[policy];
    return;
  }
  const ofApp = book.networksByApp[ban.app];
  if (ofApp === undefined) return;
  const cidr = canonical(ban);
  const bans = ofApp.bans[cidr] as BansById;
  delete bans[id];
  ofApp.count -= 1;
  const until = lastEnd(bans);
  if (until === undefined) {
    delete ofApp.bans[cidr];
    removeNetwork(ofApp.networks, cidr);
  } else {
    setNetwork(ofApp.networks, cidr, until);
  }
}

/** Call it after the last removal: until then, policies may be about to refer to the object. */
export function forgetIfUnused(book: BanBook, app: string): void {
  if (book.networksByApp[app]?.count === 0) delete book.networksByApp[app];
}

export function noAppNetworks(scope: ListScope): AppNetworks {
  return { networks: noNetworks(scope), bans: emptyTable(), count: 0 };
}

/** Returns when the last of the bans ends; undefined: there is none. */
function lastEnd(bans: BansById): number | undefined {
  let last: number | undefined;
  for (const id in bans) {
    const { untilSeconds } = bans[id] as SnapshotBan;
    if (last === undefined || untilSeconds > last) last = untilSeconds;
  }
  return last;
}

/** A network may be written in several ways. */
function canonical({ cidr = "" }: SnapshotBan): string {
  return referredList(cidr) === undefined ? formatCidr(parseCidr(cidr) as Cidr) : cidr;
}

function isEmpty(table: Readonly<Record<string, unknown>>): boolean {
  for (const _ in table) return false;
  return true;
}
