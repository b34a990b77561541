// This list says what the bench compares, and in which nginx each variant runs: headers, policies and workers belong to one nginx as a whole, so
// variants which differ in them have their own nginx, all started from bench/nginx.conf and measured in turns.
import { type PolicyDocument, policies } from "./policies.ts";

export interface Instance {
  readonly workers: number;
  readonly headers: "none" | "both";
  readonly policies: readonly PolicyDocument[];
}

const alone = { workers: 1, headers: "none" } as const;

export const instances = {
  main: { ...alone, policies: policies.node },
  headers: { ...alone, headers: "both", policies: policies.node },
  fixedWindow: { ...alone, policies: policies.nodeFixedWindow },
  hostsKeys: { ...alone, policies: policies.nodeHostsKeys },
  twoLimits: { ...alone, policies: policies.nodeTwoLimits },
  twoPolicies: { ...alone, policies: policies.nodeTwoPolicies },
  tenThousand: { ...alone, policies: policies.tenThousand },
  twoWorkers: { ...alone, workers: 2, policies: policies.node },
  nodeFlood: { ...alone, policies: policies.nodeFlood },
  cluster: { ...alone, policies: policies.cluster },
  clusterTwoPolicies: { ...alone, policies: policies.clusterTwoPolicies },
  clusterFlood: { ...alone, policies: policies.clusterFlood },
  clusterLeased: { ...alone, policies: policies.clusterLeased },
} satisfies Record<string, Instance>;

export interface Variant {
  readonly name: string;
  readonly about: string;
  readonly instance: keyof typeof instances;
  readonly path:
    | "/bare"
    | "/native"
    | "/lua-noop"
    | "/lua-gcra"
    | "/lua-gcra-log"
    | "/lua-headers"
    | "/lua-headers-added"
    | "/lock-snippet"
    | "/redis-each"
    | "/sluice";
  /** `one`: the same request always; `many`: 100,000 keys; `hosts`: 10 paths on each of 1,000 hosts. */
  readonly keys: "one" | "many" | "hosts";
  /** Everything is refused with 429, after the few that the limit allows. */
  readonly flood?: boolean;
  /** Sends checks to Redis, at least for the first request. */
  readonly asksRedis?: boolean;
  /** How many policies decide a request; absent: one. */
  readonly policies?: number;
  /** Used in place of --connections. */
  readonly connections?: number;
  /** The variants to which this one's ratios are taken. */
  readonly native?: string;
  readonly redisEach?: string;
}

const native = "native";
const sluice = { path: "/sluice", keys: "one", native } as const;
const cluster = { ...sluice, instance: "cluster", asksRedis: true } as const;
const redisEach = { path: "/redis-each", instance: "main", asksRedis: true, native } as const;

/** In the order in which they take turns: variants that are compared are next to each other. */
export const variants: readonly Variant[] = [
  { name: "bare", about: "no limiter", instance: "main", path: "/bare", keys: "one", native },
  { name: "lua-noop", about: "an empty access_by_lua", instance: "main", path: "/lua-noop", keys: "one", native },
  {
    name: "lua-gcra",
    about: "the least that a limiter in Lua can do: get and set",
    instance: "main",
    path: "/lua-gcra",
    keys: "one",
    native,
  },
  {
    name: "lua-gcra-log",
    about: "lua-gcra and a log phase",
    instance: "main",
    path: "/lua-gcra-log",
    keys: "one",
    native,
  },
  {
    name: "lua-headers",
    about: "lua-gcra-log and five headers by ngx.header",
    instance: "headers",
    path: "/lua-headers",
    keys: "one",
    native,
  },
  {
    name: "lua-headers-added",
    about: "the same by ngx.resp.add_header",
    instance: "headers",
    path: "/lua-headers-added",
    keys: "one",
    native,
  },
  {
    name: "lock-snippet",
    about: "lock, get, incr, unlock on a shared dict",
    instance: "main",
    path: "/lock-snippet",
    keys: "one",
    native,
  },
  { name: "native", about: "limit_req on $binary_remote_addr", instance: "main", path: "/native", keys: "one", native },
  { ...sluice, name: "node", about: "node scope, token bucket, key ip, no headers", instance: "main" },
  { ...sluice, name: "node-headers", about: "node, all headers", instance: "headers" },
  {
    ...cluster,
    name: "cluster-leased",
    about: "cluster scope, leased, one key",
    instance: "clusterLeased",
  },
  { ...sluice, name: "node-fixed-window", about: "node, a fixed window instead", instance: "fixedWindow" },
  { ...sluice, name: "node-two-limits", about: "node, token bucket and fixed window", instance: "twoLimits" },
  { ...sluice, name: "node-two-policies", about: "node, two policies", instance: "twoPolicies", policies: 2 },
  {
    ...sluice,
    name: "node-hosts",
    about: "node, for the requests of node-10k-policies",
    instance: "main",
    keys: "hosts",
  },
  {
    ...sluice,
    name: "node-10k-policies",
    about: "node, 10,000 policies: 10 paths on 1,000 hosts",
    instance: "tenThousand",
    keys: "hosts",
  },
  {
    ...sluice,
    name: "node-hosts-keys",
    about: "one policy with a counter for each host and path of node-10k-policies",
    instance: "hostsKeys",
    keys: "hosts",
  },
  { ...sluice, name: "node-flood", about: "node, everything is over the limit", instance: "nodeFlood", flood: true },
  {
    ...cluster,
    name: "cluster-flood",
    about: "cluster scope, everything is over the limit",
    instance: "clusterFlood",
    flood: true,
  },
  {
    name: "native-2-workers",
    about: "native in two workers",
    instance: "twoWorkers",
    path: "/native",
    keys: "one",
    native: "native-2-workers",
  },
  {
    ...sluice,
    name: "node-2-workers",
    about: "node in two workers, which must agree",
    instance: "twoWorkers",
    native: "native-2-workers",
  },
  {
    ...redisEach,
    name: "redis-each",
    about: "one EVALSHA a request, 100,000 keys",
    keys: "many",
    redisEach: "redis-each",
  },
  {
    ...cluster,
    name: "cluster",
    about: "cluster scope, exact, 100,000 keys",
    keys: "many",
    redisEach: "redis-each",
  },
  {
    ...cluster,
    name: "cluster-two-policies",
    about: "cluster, two policies",
    instance: "clusterTwoPolicies",
    policies: 2,
    keys: "many",
    redisEach: "redis-each",
  },
  { ...redisEach, name: "redis-each-hot", about: "one key", keys: "one", redisEach: "redis-each-hot" },
  { ...cluster, name: "cluster-hot", about: "one key", redisEach: "redis-each-hot" },
  {
    ...redisEach,
    name: "redis-each-alone",
    about: "one connection, 100,000 keys",
    keys: "many",
    connections: 1,
    redisEach: "redis-each-alone",
  },
  {
    ...cluster,
    name: "cluster-alone",
    about: "one connection, 100,000 keys",
    keys: "many",
    connections: 1,
    redisEach: "redis-each-alone",
  },
];
