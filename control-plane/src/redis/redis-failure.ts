// Why Redis did not do what it was asked, in words: for operators with what ioredis or Redis said, for clients of REST
// without addresses and users. Neither holds a password.

/** Something that Redis did not do. The message is for operators. */
export class RedisFailure extends Error {
  /** What is so of Redis, behind "The policy counts in Redis, which". */
  readonly clause: string;

  constructor(message: string, clause: string) {
    super(message);
    this.name = "RedisFailure";
    this.clause = clause;
  }
}

/** What is known of the connection that a command failed on. */
export interface Circumstances {
  /** host:port, as far as it is known */
  readonly server: string;
  readonly tls: boolean;
  readonly signsIn: boolean;
  /** It has never done what it was asked since it was opened. */
  readonly isNew: boolean;
}

const whereRightsAre = "(the rights that Sluice's user needs are in docs/cluster.md)";

/** @param error what ioredis threw or told */
export function describeFailure(error: unknown, { server, tls, signsIn, isNew }: Circumstances): string {
  const { message, code } = causeOf(error);
  const [, last] = /^All sentinels are unreachable\..* Last error: (.*)$/s.exec(message) ?? [];
  if (last !== undefined) return describeSentinels(last);
  if (isUnknownPrimary(error)) return "the sentinels know no primary of this name";
  if (isRefusal(message)) return `${message} ${whereRightsAre}`;
  if (message.includes("NOAUTH") && !signsIn) return `${message} (SLUICE_REDIS_URL has no password)`;
  // Its parser takes a first byte that begins no reply for a defect of its own.
  if (message.endsWith("Please report this.")) return `what answers at ${server} does not speak Redis`;
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER")
    return `what answers at ${server} does not speak TLS, as rediss:// has it`;
  if (tls && /before secure TLS connection|connect ETIMEDOUT/.test(message)) {
    return `${message}: nobody spoke TLS at ${server}, as rediss:// has it`;
  }
  if (!tls && isNew && code === "ECONNRESET") return `${message} at ${server} (a port for TLS wants rediss://)`;
  return message;
}

/** Redis' codes are words of the protocol; anything else may name addresses. */
export function clauseFor(description: string): string {
  if (isRefusal(description)) {
    const commands = description.match(/'[\w|]+'/g)?.join(", ") ?? "what this needs";
    return `does not let the control plane's user run ${commands}: docs/cluster.md has the rights that it needs`;
  }
  const [code] =
    /\b(?:NOAUTH|WRONGPASS|CLUSTERDOWN|LOADING|READONLY|OOM|MISCONF|NOREPLICAS|BUSY)\b/.exec(description) ?? [];
  return code === undefined ? "cannot be reached now" : `does not do what it is asked: ${code}`;
}

/** ioredis had no connection to send it over: why, it told before. */
export function isOffline(error: unknown): boolean {
  const said =
    /^(?:Stream isn't writeable|Cluster i|Connection is closed|Reached the max retries|Failed to refresh slots|timeout$|All sentinels are unreachable\.[^.]*\.$)/;
  return error instanceof Error && said.test(causeOf(error).message);
}

/** What ioredis tells of a sentinel that answered. */
export function isUnknownPrimary(error: unknown): boolean {
  return error instanceof Error && error.message.endsWith("successfully, but got an invalid reply: null");
}

/** @param last what the last of them that failed said */
function describeSentinels(last: string): string {
  if (last.startsWith("Connection is closed")) return "no sentinel can be reached";
  if (last.endsWith("Please report this.")) return "what answers in place of a sentinel does not speak Redis";
  if (last.includes("NOAUTH"))
    return `sentinel: ${last} (SLUICE_REDIS_URL has it behind the name: ?sentinel=:PASSWORD)`;
  if (last.includes("unknown command"))
    return `sentinel: ${last.split(",", 1)[0]} (the port of a Redis, not of a sentinel?)`;
  return `sentinel: ${isRefusal(last) ? `${last} ${whereRightsAre}` : last}`;
}

function isRefusal(message: string): boolean {
  return message.includes("NOPERM") || message.includes("The user executing the script can't");
}

function causeOf(error: unknown): { readonly message: string; readonly code?: string } {
  if (!(error instanceof Error)) return { message: String(error) };
  const { lastNodeError } = error as { lastNodeError?: Error | null };
  if (lastNodeError instanceof Error) return causeOf(lastNodeError);
  // Of a host with several addresses, Node's error is a list.
  const inner = error instanceof AggregateError ? error.errors[0] : undefined;
  return inner instanceof Error ? inner : error;
}
