// Every store by the name that policies and charges have.

import type { StoreName } from "../../../limiter/src/compiled/compile.ts";
import { leaseStore } from "../stores/lease/lease-store.ts";
import { nodeStore } from "../stores/node/node-store.ts";
import { exactStore } from "../stores/redis/exact-store.ts";
import { shareStore } from "../stores/share/share-store.ts";
import type { Store } from "../stores/store.ts";

export const stores: Readonly<Record<StoreName | "share", Store>> = {
  node: nodeStore,
  exact: exactStore,
  leased: leaseStore,
  share: shareStore,
};
