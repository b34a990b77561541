// SLUICE_REDIS_URL as ioredis needs it. Gateways and the control plane have one parser, which works on bytes: a text is converted to bytes
// and back. docs/cluster.md describes the forms of the URL.

import { type Address as ParsedAddress, parseDeployment, type UrlProblem } from "@sluice/limiter/protocol/redis-url.ts";

export interface Address {
  /** An IPv6 address has no brackets. */
  readonly host: string;
  readonly port: number;
}

export interface SignIn {
  /** "" means the default user. */
  readonly user: string;
  /** "" means no sign-in. */
  readonly password: string;
}

interface Common extends SignIn {
  readonly tls: boolean;
  readonly addresses: readonly Address[];
  readonly database: number;
}

export type RedisDeployment = Common &
  (
    | { readonly kind: "single" | "cluster" }
    | { readonly kind: "sentinel"; readonly name: string; readonly sentinel: SignIn }
  );

export function parseRedisUrl(url: string): RedisDeployment | UrlProblem {
  const deployment = parseDeployment(bytesOf(url));
  if ("expected" in deployment) return deployment;
  const { access } = deployment;
  const common = { tls: access.tls, ...signInOf(access), database: access.database };
  if (common.user.includes(notUtf8) || common.password.includes(notUtf8)) return notText;
  if (deployment.kind === "single")
    return { kind: "single", ...common, addresses: [withoutBrackets(deployment.address)] };
  if (deployment.kind === "cluster")
    return { kind: "cluster", ...common, addresses: deployment.seeds.map(withoutBrackets) };
  const sentinel = signInOf(deployment.sentinelAccess);
  if (sentinel.user.includes(notUtf8) || sentinel.password.includes(notUtf8)) return notText;
  return {
    kind: "sentinel",
    ...common,
    addresses: deployment.sentinels.map(withoutBrackets),
    name: deployment.name,
    sentinel,
  };
}

/** What a decoder of UTF-8 puts in place of bytes that are none. */
const notUtf8 = "\ufffd";
const notText: UrlProblem = {
  expected: "USER:PASSWORD in UTF-8, percent-encoded, before the @",
  got: "something else",
};

function bytesOf(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

function signInOf({ user, password }: SignIn): SignIn {
  return { user: textOf(user), password: textOf(password) };
}

function textOf(bytes: string): string {
  return Buffer.from(bytes, "latin1").toString("utf8");
}

function withoutBrackets({ host, port }: ParsedAddress): Address {
  return { host: host.replace(/^\[(.*)\]$/, "$1"), port };
}
