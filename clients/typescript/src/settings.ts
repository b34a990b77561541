// Checks the options of a client once, when it is made, and refuses unknown ones. An error names the option, what was expected and what
// came; it never repeats the token.

import type { ClientOptions, TlsOptions } from "./client-options.ts";
import { described } from "./described-value.ts";
import type { SluiceEvent } from "./events.ts";

export interface Target {
  readonly secure: boolean;
  readonly host: string;
  readonly port: number | undefined;
  readonly socketPath: string | undefined;
}

export interface Settings {
  readonly target: Target;
  readonly token: string;
  readonly deadlineMs: number;
  readonly failureAllows: boolean;
  readonly maxBatch: number;
  readonly maxInFlight: number;
  readonly rememberRefusalsMs: number;
  readonly maxRemembered: number;
  readonly retryAfterFailureMs: number;
  readonly onEvent: ((event: SluiceEvent) => void) | undefined;
  readonly ca: string | Buffer | (string | Buffer)[] | undefined;
}

/** Timers take no more than this. */
export const mostMs = 2_147_483_647;
const known = [
  "url",
  "token",
  "deadlineMs",
  "onFailure",
  "maxBatch",
  "maxInFlight",
  "rememberRefusalsMs",
  "maxRemembered",
  "retryAfterFailureMs",
  "onEvent",
  "tls",
];

/** @throws TypeError that names the first wrong option */
export function readOptions(options: ClientOptions): Settings {
  if (typeof options !== "object" || options === null) throw wrong("options", "an object", options);
  for (const [name, value] of Object.entries(options)) {
    if (!known.includes(name)) throw wrong(name, `no such option; known are ${known.join(", ")}`, value);
  }
  const target = readUrl(options.url);
  return {
    target,
    token: readToken(options.token),
    deadlineMs: readNumber("deadlineMs", options.deadlineMs, { otherwise: 1000, from: 1, to: 3_600_000 }),
    failureAllows: readOnFailure(options.onFailure),
    maxBatch: readNumber("maxBatch", options.maxBatch, { otherwise: 50, from: 1, to: 100 }),
    maxInFlight: readNumber("maxInFlight", options.maxInFlight, { otherwise: 2, from: 1, to: 1000 }),
    rememberRefusalsMs: readNumber("rememberRefusalsMs", options.rememberRefusalsMs, {
      otherwise: 10_000,
      from: 0,
      to: mostMs,
    }),
    maxRemembered: readNumber("maxRemembered", options.maxRemembered, { otherwise: 10_000, from: 1, to: 10_000_000 }),
    retryAfterFailureMs: readNumber("retryAfterFailureMs", options.retryAfterFailureMs, {
      otherwise: 100,
      from: 0,
      to: mostMs,
    }),
    onEvent: readHook(options.onEvent),
    ca: readTls(options.tls, target),
  };
}

function readUrl(url: unknown): Target {
  const expected = '"http://HOST:PORT", "https://HOST:PORT" or "unix:/PATH"';
  if (typeof url !== "string") throw wrong("url", expected, url);
  if (url.startsWith("unix:/")) {
    return { secure: false, host: "localhost", port: undefined, socketPath: url.slice("unix:".length) };
  }
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const isHttp = parsed?.protocol === "http:" || parsed?.protocol === "https:";
  if (parsed === undefined || !isHttp || !url.includes("://")) throw wrong("url", expected, url);
  // A path, a query or a password here would be left out of the requests without a word.
  if (parsed.href !== `${parsed.origin}/`) throw wrong("url", `${expected}, and nothing else in it`, url);
  return {
    secure: parsed.protocol === "https:",
    host: parsed.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: parsed.port === "" ? undefined : Number(parsed.port),
    socketPath: undefined,
  };
}

function readToken(token: unknown): string {
  if (typeof token !== "string") throw wrong("token", "the text of a caller token", token);
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new TypeError(
    `option token: expected one or more characters of ASCII without blanks, got a text of ${token.length} characters`,
  );
}

function readOnFailure(onFailure: unknown): boolean {
  if (onFailure === undefined || onFailure === "allow") return true;
  if (onFailure === "deny") return false;
  throw wrong("onFailure", '"allow" or "deny"', onFailure);
}

function readNumber(
  name: string,
  value: unknown,
  { otherwise, from, to }: Record<"otherwise" | "from" | "to", number>,
) {
  if (value === undefined) return otherwise;
  if (typeof value === "number" && Number.isInteger(value) && value >= from && value <= to) return value;
  throw wrong(name, `an integer from ${from} to ${to}`, value);
}

function readHook(onEvent: unknown): ClientOptions["onEvent"] {
  if (onEvent === undefined || typeof onEvent === "function") return onEvent as ClientOptions["onEvent"];
  throw wrong("onEvent", "a function", onEvent);
}

function readTls(tls: unknown, { secure }: Target): Settings["ca"] {
  if (tls === undefined) return undefined;
  if (typeof tls !== "object" || tls === null) throw wrong("tls", "an object with ca", tls);
  if (!secure) throw wrong("tls", "nothing, because the url is not https", tls);
  for (const [name, value] of Object.entries(tls)) {
    if (name !== "ca") throw wrong(`tls.${name}`, "no such option; known is ca", value);
  }
  const { ca } = tls as TlsOptions;
  if (ca === undefined || isPem(ca)) return ca;
  if (Array.isArray(ca) && ca.every(isPem)) return [...ca];
  throw wrong("tls.ca", "PEM, or a list of PEMs", ca);
}

function isPem(value: unknown): value is string | Buffer {
  return (typeof value === "string" || Buffer.isBuffer(value)) && value.includes("-----BEGIN ");
}

function wrong(name: string, expected: string, got: unknown): TypeError {
  return new TypeError(`option ${name}: expected ${expected}, got ${described(got)}`);
}
