// What the pages read.

import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, noteSession, type Schemas } from "./client.ts";

export type Session = Schemas["Session"];
export type Fleet = Schemas["Fleet"];
export type Gateway = Fleet["gateways"][number];
export type ListedPolicy = Schemas["PolicyPage"]["policies"][number];
export type TrafficPoint = Schemas["Traffic"]["points"][number];

const pageSize = 1_000;

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
    const apps: Schemas["App"][] = [];
    for (let after: string | undefined = ""; after !== undefined; ) {
      const page: Schemas["AppPage"] = await answerOf(
        api.GET("/api/v1/apps", { params: { query: { limit: pageSize, ...(after && { after }) } }, signal }),
      );
      apps.push(...page.apps);
      after = page.next;
    }
    return apps;
  },
});

export const fleetQuery = queryOptions({
  queryKey: ["gateways"],
  queryFn: ({ signal }) => answerOf(api.GET("/api/v1/gateways", { signal })),
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
      const policies: ListedPolicy[] = [];
      for (let after: string | undefined = ""; after !== undefined; ) {
        const page: Schemas["PolicyPage"] = await answerOf(
          api.GET("/api/v1/apps/{app}/policies", {
            params: { path: { app }, query: { limit: pageSize, ...(after && { after }) } },
            signal,
          }),
        );
        policies.push(...page.policies);
        after = page.next;
      }
      return policies;
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

export const trafficQuery = (app: string, since: string) =>
  queryOptions({
    queryKey: ["traffic", app, since],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/apps/{app}/traffic", { params: { path: { app }, query: { since, step: "second" } }, signal }),
      ),
    staleTime: Number.POSITIVE_INFINITY,
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
