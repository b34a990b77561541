// An app's realm: the hosts and paths that its policies may match, and where they may send requests beyond these. An admin of all
// apps sets it. The other modules of this folder apply it.

export interface Realm {
  /** Hosts as in policies: names, and "*." before a name for every name below it. Empty: every host. */
  readonly hosts: readonly string[];
  /**
   * Each path contains itself and all that is beneath it: "/api/crm" contains "/api/crm/x", not "/api/crmx". Empty: every path.
   */
  readonly paths: readonly string[];
  /** Named locations, and paths outside of `paths`, that `degrade` may send requests to. */
  readonly redirects: readonly string[];
}

/** A realm as it is put; an absent list is an empty one. */
export type RealmDocument = Partial<Realm>;

/** @param document of the right shape */
export function realmFrom({ hosts = [], paths = [], redirects = [] }: RealmDocument): Realm {
  return { hosts, paths, redirects };
}

/** Returns what every path within it begins with, except for the path itself. */
export function beneath(realmPath: string): string {
  return realmPath === "/" ? "/" : `${realmPath}/`;
}
