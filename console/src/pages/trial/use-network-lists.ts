// The lists of networks that policies and exemptions refer to. Only they are read: a list may have a hundred thousand networks.

import { blocksOf } from "@sluice/limiter/key/address-ranges.ts";
import { listKey, type NetworkLists, referredList } from "@sluice/limiter/key/network-lists.ts";
import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { type ListedPolicy, networkListQuery, networkListsQuery } from "../../api/queries.ts";
import type { Surroundings } from "../../trial/trial.ts";

/** Whoever may not read app `default` does not see the lists of it here. */
export function useNetworkLists(
  app: string,
  policies: readonly ListedPolicy[],
  ofApps: Surroundings["ofApps"],
): NetworkLists {
  const names = useMemo(() => referredNames(policies, ofApps), [policies, ofApps]);
  const { data: own = [] } = useQuery({ ...networkListsQuery(app), enabled: names.size > 0 });
  const { data: ofAll = [] } = useQuery({ ...networkListsQuery("default"), enabled: names.size > 0 });
  const needed = [...own.map(({ name }) => ({ app, name })), ...ofAll.map(({ name }) => ({ app: "default", name }))]
    .filter(({ name }) => names.has(name))
    .filter((one, i, all) => all.findIndex((other) => other.app === one.app && other.name === one.name) === i);
  return useQueries({
    queries: needed.map((one) => ({ ...networkListQuery(one.app, one.name), select: blocksOf })),
    combine: (answers) => {
      const lists: NetworkLists = {};
      answers.forEach(({ data }, i) => {
        const one = needed[i];
        if (data !== undefined && one !== undefined) lists[listKey(one.app, one.name)] = data;
      });
      return lists;
    },
  });
}

function referredNames(policies: readonly ListedPolicy[], ofApps: Surroundings["ofApps"]): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { exempt } of [...policies.map(({ document }) => document), ...ofApps])
    for (const cidr of exempt?.cidrs ?? []) {
      const name = referredList(cidr);
      if (name !== undefined) names.add(name);
    }
  return names;
}
