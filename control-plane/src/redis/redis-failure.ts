// Explains why Redis did not do what it was asked. Operators get the message of ioredis or Redis; REST clients get a text
// without addresses and users. Neither text contains a password.

/** A failed operation on Redis. The message is for operators. */
export class RedisFailure extends Error {
  /** The state of Redis for clients, as the end of the sentence "The policy counts in Redis, which …". */
  readonly clause: string;

  constructor(message: string, clause: string) {
    super(message);
    this.name = "RedisFailure";
    this.clause = clause;
  }
}

/** What is known of the connection on which a command failed. */
export interface Circumstances {
  /** host:port, as far as it is known. */
  readonly server: string;
  readonly tls: boolean;
  readonly signsIn: boolean;
  /** Whether the connection has not worked yet since it was opened. */
  readonly isNew: boolean;
}

const whereRightsAre = "(the rights that Sluice's user needs are in docs/cluster.md)";

/** @param error that ioredis threw or emitted */
export function describeFailure(error: unknown, { server, tls, signsIn, isNew }: Circumstances): string {
  const { message, code } = causeOf(error);
  const [, last] = /^All sentinels are unreachable\..* Last error: (.*)$/s.exec(message) ?? [];
  if (last !== undefined) return describeSentinels(last);
  if (isUnknownPrimary(error)) return "the sentinels know no primary of this name";
  if (isRefusal(message)) return `${message} ${whereRightsAre}`;
  if (message.includes("NOAUTH") && !signsIn) return `${message} (SLUICE_REDIS_URL has no password)`;
  // If the first byte does not begin any reply, ioredis' parser reports a defect of its own.
  if (message.endsWith("Please report this.")) return `what answers at ${server} does not speak Redis`;
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER")
    return `what answers at ${server} does not speak TLS, as rediss:// has it`;
  if (tls && /before secure TLS connection|connect ETIMEDOUT/.test(message)) {
    return `${message}: nobody spoke TLS at ${server}, as rediss:// has it`;
  }
  if (!tls && isNew && code === "ECONNRESET") return `${message} at ${server} (a port for TLS wants rediss://)`;
  return message;
}

/**
 * Makes the text for clients. Error codes of Redis are part of its protocol and may be shown; any other text may contain
 * addresses.
 */
export function clauseFor(description: string): string {
  if (isRefusal(description)) {
    const commands = description.match(/'[\w|]+'/g)?.join(", ") ?? "what this needs";
    return `does not let the control plane's user run ${commands}: docs/cluster.md has the rights that it needs`;
  }
  const [code] =
    /\b(?:NOAUTH|WRONGPASS|CLUSTERDOWN|LOADING|READONLY|OOM|MISCONF|NOREPLICAS|BUSY)\b/.exec(description) ?? [];
  return code === undefined ? "cannot be reached now" : `does not do what it is asked: ${code}`;
}

/** Returns whether ioredis had no connection to send the command over. ioredis emitted the reason before. */
export function isOffline(error: unknown): boolean {
  const said =
    /^(?:Stream isn't writeable|Cluster i|Connection is closed|Reached the max retries|Failed to refresh slots|timeout$|All sentinels are unreachable\.[^.]*\.$)/;
  return error instanceof Error && said.test(causeOf(error).message);
}

/** Returns whether a sentinel answered, but knows no primary of this name. */
export function isUnknownPrimary(error: unknown): boolean {
  return error instanceof Error && error.message.endsWith("successfully, but got an invalid reply: null");
}

/** @param last error message of the last sentinel that failed */
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
  // For a host with several addresses, Node throws a list of errors.
  const inner = error instanceof AggregateError ? error.errors[0] : undefined;
  return inner instanceof Error ? inner : error;
}
