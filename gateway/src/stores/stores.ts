// Every store by the name that policies and charges have.

import type { StoreName } from "../../../limiter/src/compiled/compile.ts";
import { leaseStore } from "./lease/lease-store.ts";
import { nodeStore } from "./node/node-store.ts";
import { exactStore } from "./redis/exact-store.ts";
import { shareStore } from "./share/share-store.ts";
import type { Store } from "./store.ts";

export const stores: Readonly<Record<StoreName | "share", Store>> = {
  node: nodeStore,
  exact: exactStore,
  leased: leaseStore,
  share: shareStore,
};
