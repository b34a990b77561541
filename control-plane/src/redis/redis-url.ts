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
  const signIn = signInOf(access);
  if (signIn === undefined) return notText;
  const common = { tls: access.tls, ...signIn, database: access.database };
  if (deployment.kind === "single") {
    return { kind: "single", ...common, addresses: [withoutBrackets(deployment.address)] };
  }
  if (deployment.kind === "cluster") {
    return { kind: "cluster", ...common, addresses: deployment.seeds.map(withoutBrackets) };
  }
  const sentinel = signInOf(deployment.sentinelAccess);
  if (sentinel === undefined) return notText;
  const { name, sentinels } = deployment;
  return { kind: "sentinel", ...common, addresses: sentinels.map(withoutBrackets), name, sentinel };
}

const notText: UrlProblem = {
  expected: "USER:PASSWORD in UTF-8, percent-encoded, before the @",
  got: "something else",
};

function bytesOf(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

/** @returns undefined if they are not UTF-8 */
function signInOf({ user, password }: SignIn): SignIn | undefined {
  try {
    return { user: textOf(user), password: textOf(password) };
  } catch {
    return undefined;
  }
}

/** @throws TypeError if these bytes are not UTF-8 */
function textOf(bytes: string): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.from(bytes, "latin1"));
}

function withoutBrackets({ host, port }: ParsedAddress): Address {
  return { host: host.replace(/^\[(.*)\]$/, "$1"), port };
}
