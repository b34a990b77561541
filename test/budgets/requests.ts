// Lists the requests of each kind of client: for each route that the client may use, the request that costs the control plane the most.

import { operationsOf } from "../fixtures/clients/described-answers.ts";
import { app, type World } from "./world.ts";

export const kinds = ["stranger", "caller", "viewer", "editor"] as const;
export type Kind = (typeof kinds)[number];

export interface Asked {
  readonly method: string;
  /** With /api/v1, if it has that. */
  readonly path: string;
  readonly body?: string;
  readonly type?: string;
}

/** What does not end by itself, or is no HTTP, is measured elsewhere. */
const leftOut = new Set(["/api/v1/events", "/api/v1/push"]);

const parameters: Readonly<Record<string, string>> = {
  app,
  policy: "policy-1",
  consumer: "consumer-1",
  networks: "crawlers",
  template: "gold",
  from: "1",
  to: "3",
  revision: "3",
};

/** Queries with which a route does the most. */
const queries: Readonly<Record<string, string>> = {
  "/api/v1/apps/{app}/counters": "policy=policy-1&key=ann",
  "/api/v1/apps/{app}/top": "policy=policy-1&limit=1000",
  "/api/v1/apps/{app}/traffic": "step=second",
};

/** The GET requests of all routes that the description names, as large as they may be. */
export async function gets({ plane, banId }: Pick<World, "plane" | "banId">): Promise<Asked[]> {
  const description = await (await fetch(`${plane.url}/openapi.json`)).json();
  return operationsOf(description).flatMap(({ method, path, parameters: taken }) => {
    if (method !== "GET" || leftOut.has(path)) return [];
    const named = path.replace(/\{(\w+)\}/g, (_, name: string) =>
      path.startsWith("/api/v1/library") ? "api-key-plans" : name === "ban" ? banId : (parameters[name] ?? name),
    );
    const most = taken.some(({ name }) => name === "limit") && queries[path] === undefined ? "limit=1000" : "";
    const query = queries[path] ?? most;
    return [{ method, path: query === "" ? named : `${named}?${query}` }];
  });
}

const limits = [{ algorithm: "token-bucket", quota: 100, window: "1s" }];
const policy = (description: string, name?: string) =>
  JSON.stringify({ name, description, match: { paths: ["/a"] }, key: ["header:x-user"], limits });

/** What an editor changes, again and again. */
export const changes: readonly Asked[] = [
  { method: "PUT", path: `/api/v1/apps/${app}/policies/flooded`, body: policy("one of two"), type: "application/json" },
  { method: "PUT", path: `/api/v1/apps/${app}/policies/flooded`, body: policy("two of two"), type: "application/json" },
  { method: "DELETE", path: `/api/v1/apps/${app}/policies/flooded` },
  {
    method: "PUT",
    path: `/api/v1/apps/${app}/policies/large`,
    body: JSON.stringify({ limits, match: { paths: Array.from({ length: 100 }, (_, i) => `~^/a${i}(b|c)+d$`) } }),
    type: "application/json",
  },
  {
    method: "POST",
    path: `/api/v1/apps/${app}/policies/validate`,
    body: `{"limits":[${"{},".repeat(60_000)}{}]}`,
    type: "application/json",
  },
  {
    method: "POST",
    path: `/api/v1/apps/${app}/policies/validate`,
    body: "[".repeat(200_000),
    type: "application/json",
  },
  {
    method: "POST",
    path: `/api/v1/apps/${app}/policies/validate`,
    body: `a:\n${" - b: {c: d}\n".repeat(15_000)}`,
    type: "application/yaml",
  },
  {
    method: "PUT",
    path: `/api/v1/apps/${app}/policies`,
    body: Array.from({ length: 500 }, (_, i) => policy("many at once", `policy-${i}`)).join("\n"),
    type: "application/jsonl",
  },
  {
    method: "PUT",
    path: `/api/v1/apps/${app}/consumers`,
    body: Array.from({ length: 20_000 }, (_, i) => `{"id":"flood-${i}","plan":"pro"}`).join("\n"),
    type: "application/jsonl",
  },
  { method: "PUT", path: `/api/v1/apps/${app}/consumers`, body: "{}\n".repeat(300_000), type: "application/jsonl" },
  {
    method: "POST",
    path: `/api/v1/apps/${app}/bans`,
    body: JSON.stringify({ policy: "policy-0", key: ["flooded"], for: "1s" }),
    type: "application/json",
  },
  {
    method: "PUT",
    path: `/api/v1/apps/${app}/networks/flooded`,
    body: Array.from({ length: 100_000 }, (_, i) => `11.${i >> 15}.${(i >> 7) & 255}.${(i * 2) & 255}`).join("\n"),
    type: "text/plain",
  },
  { method: "DELETE", path: `/api/v1/apps/${app}/counters?policy=policy-1&key=ann` },
];

/** What needs no token, besides the GET requests: each with a wrong one is refused after a look into the database. */
export const signIns: readonly Asked[] = [
  { method: "POST", path: "/api/v1/session", body: '{"token":"wrong"}', type: "application/json" },
  { method: "GET", path: "/no/such/path" },
];

/** Writes a request as it goes over the wire. */
export function written({ method, path, body, type }: Asked, token: string | undefined): Buffer {
  const head = [`${method} ${path} HTTP/1.1`, "host: sluice.example.com"];
  if (token !== undefined) head.push(`authorization: Bearer ${token}`);
  if (body !== undefined) head.push(`content-type: ${type}`, `content-length: ${Buffer.byteLength(body)}`);
  return Buffer.from(`${head.join("\r\n")}\r\n\r\n${body ?? ""}`);
}
