// What the pages read.

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { answerOf, api, noteSession, RequestError, type Schemas } from "./client.ts";

export type Session = Schemas["Session"];
export type Fleet = Schemas["Fleet"];
export type Gateway = Fleet["gateways"][number];
export type ListedApp = Schemas["App"];
export type ListedPolicy = Schemas["PolicyPage"]["policies"][number];
export type BusyPolicy = Schemas["BusyPolicies"]["policies"][number];
export type Supplied = Schemas["SuppliedTemplate"];
export type Template = Schemas["TemplatePage"]["templates"][number];
export type ListOfNetworks = Schemas["NetworkListPage"]["lists"][number];
export type TrafficPoint = Schemas["Traffic"]["points"][number];

const pageSize = 1_000;

/** Asks for one page of a list after the other. @returns all of them */
async function everyPage<Page extends { readonly next?: string }>(
  ask: (query: { limit: number; after?: string }) => Promise<Page>,
): Promise<Page[]> {
  const pages: Page[] = [];
  for (let after: string | undefined = ""; after !== undefined; after = pages.at(-1)?.next) {
    pages.push(await ask({ limit: pageSize, ...(after && { after }) }));
  }
  return pages;
}

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async ({ signal }) => {
    const session = await answerOf(api.GET("/api/v1/session", { signal }));
    noteSession(session);
    return session;
  },
  staleTime: 60_000,
});

export const appsQuery = queryOptions({
  queryKey: ["apps"],
  queryFn: async ({ signal }) => {
    const pages = await everyPage((query) => answerOf(api.GET("/api/v1/apps", { params: { query }, signal })));
    return pages.flatMap(({ apps }) => apps);
  },
});

export const appQuery = (app: string) =>
  queryOptions({
    queryKey: ["apps", app],
    queryFn: async ({ signal }) => {
      const asked = api.GET("/api/v1/apps/{app}", { params: { path: { app } }, signal });
      const { response } = await asked;
      return { settings: await answerOf(asked), etag: response.headers.get("etag") ?? "" };
    },
  });

export const fleetQuery = queryOptions({
  queryKey: ["gateways"],
  queryFn: async ({ signal }) => {
    const pages = await everyPage((query) => answerOf(api.GET("/api/v1/gateways", { params: { query }, signal })));
    return { ...(pages[0] as Schemas["Fleet"]), gateways: pages.flatMap(({ gateways }) => gateways) };
  },
  refetchInterval: 2_000,
});

export const readinessQuery = queryOptions({
  queryKey: ["readiness"],
  queryFn: ({ signal }) => answerOf(api.GET("/readyz", { signal })),
  refetchInterval: 2_000,
});

export const policiesQuery = (app: string) =>
  queryOptions({
    queryKey: ["policies", app],
    queryFn: async ({ signal }) => {
      const pages = await everyPage((query) =>
        answerOf(api.GET("/api/v1/apps/{app}/policies", { params: { path: { app }, query }, signal })),
      );
      return pages.flatMap(({ policies }) => policies);
    },
  });

export const policyQuery = (app: string, policy: string) =>
  queryOptions({
    queryKey: ["policies", app, policy],
    queryFn: async ({ signal }) => {
      const asked = api.GET("/api/v1/apps/{app}/policies/{policy}", { params: { path: { app, policy } }, signal });
      const { response } = await asked;
      return { document: await answerOf(asked), etag: response.headers.get("etag") ?? "" };
    },
  });

export const bansQuery = (app: string) =>
  queryOptions({
    queryKey: ["bans", app],
    queryFn: async ({ signal }) => {
      const pages = await everyPage((query) =>
        answerOf(api.GET("/api/v1/apps/{app}/bans", { params: { path: { app }, query }, signal })),
      );
      return pages.flatMap(({ bans }) => bans);
    },
  });

export const networkListsQuery = (app: string) =>
  queryOptions({
    queryKey: ["networks", app],
    queryFn: async ({ signal }) => {
      const pages = await everyPage((query) =>
        answerOf(api.GET("/api/v1/apps/{app}/networks", { params: { path: { app }, query }, signal })),
      );
      return pages.flatMap(({ lists }) => lists);
    },
  });

/** The networks of a list: up to a hundred thousand, so they are not kept for long. */
export const networkListQuery = (app: string, name: string) =>
  queryOptions({
    queryKey: ["networks", app, name],
    queryFn: async ({ signal }) => {
      const params = { path: { app, networks: name } };
      return (await answerOf(api.GET("/api/v1/apps/{app}/networks/{networks}", { params, signal }))).networks;
    },
    gcTime: 10_000,
  });

/** A page at a time. @param prefix how ids begin @param plan empty: any */
export const consumersQuery = (app: string, prefix: string, plan: string) =>
  infiniteQueryOptions({
    queryKey: ["consumers", app, prefix, plan],
    queryFn: ({ signal, pageParam: after }) => {
      const query = { limit: 100, ...(after && { after }), ...(prefix && { prefix }), ...(plan && { plan }) };
      return answerOf(api.GET("/api/v1/apps/{app}/consumers", { params: { path: { app }, query }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: ({ next }) => next,
  });

/** As somebody has typed them: the control plane says what is wrong. */
export interface ConsumerTerms {
  readonly id: string;
  readonly plan: string;
  readonly overrides?: Record<string, never>;
}

/** What the control plane would warn of if the consumer were stored. @param terms undefined: nothing is asked */
export const consumerWarningsQuery = (app: string, terms: ConsumerTerms | undefined) =>
  queryOptions({
    queryKey: ["consumer-warnings", app, terms],
    queryFn: async ({ signal }) => {
      const { id = "", ...body } = terms ?? { plan: "" };
      const params = { path: { app, consumer: id }, query: { dryRun: true } };
      const asked = api.PUT("/api/v1/apps/{app}/consumers/{consumer}", { params, body, signal });
      return (await answerOf(asked)).warnings ?? [];
    },
    enabled: terms !== undefined,
    placeholderData: (shown) => (terms === undefined ? [] : shown),
    gcTime: 0,
    retry: false,
  });

/** Null: nobody is known by this id. */
export const consumerQuery = (app: string, consumer: string) =>
  queryOptions({
    queryKey: ["consumers", app, consumer],
    queryFn: async ({ signal }) => {
      const asked = api.GET("/api/v1/apps/{app}/consumers/{consumer}", { params: { path: { app, consumer } }, signal });
      try {
        return await answerOf(asked);
      } catch (error) {
        // A value that cannot be an id is nobody's either.
        if (error instanceof RequestError && (error.status === 404 || error.status === 400)) return null;
        throw error;
      }
    },
  });

/**
 * Every look is in the audit trail, so it is asked once, and again only if somebody says so.
 *
 * @param plan whose limits are meant; undefined: the policy has no plans, or its key or its default plan says
 */
export const counterQuery = (app: string, policy: string, key: readonly string[], plan?: string) =>
  queryOptions({
    queryKey: ["counter", app, policy, key, plan],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/apps/{app}/counters", {
          params: {
            path: { app },
            query: { policy, key: [JSON.stringify(key)], literal: true, ...(plan === undefined ? {} : { plan }) },
          },
          signal,
        }),
      ),
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });

export const templatesQuery = (app: string) =>
  queryOptions({
    queryKey: ["templates", app],
    queryFn: async ({ signal }) => {
      const pages = await everyPage((query) =>
        answerOf(api.GET("/api/v1/apps/{app}/templates", { params: { path: { app }, query }, signal })),
      );
      return pages.flatMap(({ templates }) => templates);
    },
  });

/** What is supplied does not change while the control plane runs. */
export const libraryQuery = queryOptions({
  queryKey: ["library"],
  queryFn: async ({ signal }) => (await answerOf(api.GET("/api/v1/library", { signal }))).templates,
  staleTime: Number.POSITIVE_INFINITY,
});

export const membersQuery = queryOptions({
  queryKey: ["members"],
  queryFn: async ({ signal }) => {
    const pages = await everyPage((query) => answerOf(api.GET("/api/v1/members", { params: { query }, signal })));
    return pages.flatMap(({ members }) => members);
  },
});

export const tokensQuery = queryOptions({
  queryKey: ["tokens"],
  queryFn: async ({ signal }) => {
    const pages = await everyPage((query) => answerOf(api.GET("/api/v1/tokens", { params: { query }, signal })));
    return pages.flatMap(({ tokens }) => tokens);
  },
});

/** The policies of an app with most refusals in the last hour. */
export const busyQuery = (app: string, limit: number) =>
  queryOptions({
    queryKey: ["busy", app, limit],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/apps/{app}/traffic/policies", {
          // Of an hour and not more, by the control plane's clock: the whole hour might be over when it is asked for.
          params: { path: { app }, query: { since: "59m", limit } },
          signal,
        }),
      ),
    refetchInterval: 5_000,
  });

/** So many apps of the list say what they refuse. */
const markedApps = 100;

/** The apps with most refusals in the last minutes, of those that one may see. */
export const busyAppsQuery = queryOptions({
  queryKey: ["busy"],
  queryFn: ({ signal }) =>
    answerOf(api.GET("/api/v1/traffic", { params: { query: { since: "4m", limit: markedApps } }, signal })),
  refetchInterval: 5_000,
});

export const trafficQuery = (app: string, since: string, policy?: string) =>
  queryOptions({
    queryKey: ["traffic", app, policy, since],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/apps/{app}/traffic", {
          params: { path: { app }, query: { since, step: "second", ...(policy === undefined ? {} : { policy }) } },
          signal,
        }),
      ),
    staleTime: Number.POSITIVE_INFINITY,
  });

/** @param since a duration before now */
export const pastTrafficQuery = (app: string, policy: string | undefined, since: string, step: "minute" | "hour") =>
  queryOptions({
    queryKey: ["past-traffic", app, policy, since],
    queryFn: ({ signal }) => {
      const query = { since, step, ...(policy === undefined ? {} : { policy }) };
      return answerOf(api.GET("/api/v1/apps/{app}/traffic", { params: { path: { app }, query }, signal }));
    },
    refetchInterval: 30_000,
  });

/** What came to a policy in each minute of the last hour. */
export const recordedQuery = (app: string, policy: string) =>
  queryOptions({
    queryKey: ["recorded", app, policy],
    queryFn: async ({ signal }) => {
      const query = { policy, since: "1h", step: "minute" } as const;
      const { points } = await answerOf(
        api.GET("/api/v1/apps/{app}/traffic", { params: { path: { app }, query }, signal }),
      );
      return points.map(({ at, admitted, refused }) => ({ at, requests: admitted + refused }));
    },
    staleTime: 60_000,
  });
