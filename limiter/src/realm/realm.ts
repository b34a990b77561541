// An app's realm: the hosts and paths that its policies may match, and where they may send requests beyond these. Who
// may set it is an admin of all apps; what follows from it is in the other modules of this folder.

export interface Realm {
  /** As policies write hosts: names, and "*." before one for every name below it. Empty: every host. */
  readonly hosts: readonly string[];
  /** Each holds itself and all that is beneath it: "/api/crm" holds "/api/crm/x", not "/api/crmx". Empty: every path. */
  readonly paths: readonly string[];
  /** Named locations, and paths outside of `paths`, that `degrade` may send requests to. */
  readonly redirects: readonly string[];
}

/** As it is put; an absent list is an empty one. */
export type RealmDocument = Partial<Realm>;

/** @param document of the right shape */
export function realmFrom({ hosts = [], paths = [], redirects = [] }: RealmDocument): Realm {
  return { hosts, paths, redirects };
}

/** What every path within it begins with, but for the path itself. */
export function beneath(realmPath: string): string {
  return realmPath === "/" ? "/" : `${realmPath}/`;
}
