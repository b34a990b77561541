// What the log may show of errors and requests. Drivers attach statements, arguments and whole connections to their errors, so
// an error is logged by a list of what is known to be harmless, and texts that look like secrets are removed from it.

/** No code logs these fields on purpose. The log redacts them, so that none gets there by accident. */
const secretFields = [
  "authorization",
  "cookie",
  "client_secret",
  "clientSecret",
  "password",
  "secret",
  "set-cookie",
  "token",
];

/** Passwords in URLs, our own tokens, values of headers, and what is said to be a secret. */
const secretTexts: readonly (readonly [RegExp, string])[] = [
  [/(:\/\/[^\s/:@]*):[^\s/@]*@/g, "$1:[redacted]@"],
  [/\bsluice_[a-z]+_[\w-]{8,}/g, "[redacted]"],
  [/\b(bearer|basic) +[^\s"',]+/gi, "$1 [redacted]"],
  [
    /\b((?:set-)?cookie|authorization|password|client_secret|secret|token)(["']?\s*[:=]\s*["']?)[^\s"',;&]+/gi,
    "$1$2[redacted]",
  ],
];

/** The most errors of a chain of causes. */
const mostCauses = 5;

export type LoggedError = {
  type: string;
  message: string;
  stack: string;
  [field: string]: unknown;
};

/** Returns what the log shows of something that was thrown. */
export function loggedError(thrown: unknown, depth = 0): LoggedError {
  if (!(thrown instanceof Error)) return { type: typeof thrown, message: withoutSecrets(String(thrown)), stack: "" };
  const { code } = thrown as { code?: unknown };
  return {
    type: thrown.name,
    message: withoutSecrets(thrown.message),
    ...(typeof code === "string" ? { code } : {}),
    stack: withoutSecrets(thrown.stack ?? ""),
    ...(thrown instanceof AggregateError && depth < mostCauses
      ? { errors: thrown.errors.slice(0, mostCauses).map((one) => loggedError(one, depth + 1)) }
      : {}),
    ...(thrown.cause === undefined || depth === mostCauses ? {} : { cause: loggedError(thrown.cause, depth + 1) }),
  };
}

/** Removes from a text what looks like a token, a password or a credential. */
export function withoutSecrets(text: string): string {
  return secretTexts.reduce((left, [pattern, replacement]) => left.replace(pattern, replacement), text);
}

export const logOptions = {
  serializers: {
    err: loggedError,
    error: (said: unknown) => (said instanceof Error ? loggedError(said) : said),
    // Nobody logs these on purpose: their headers have tokens and cookies.
    req: () => ({}),
    res: () => ({}),
  },
  redact: {
    paths: secretFields.flatMap((name) => {
      const field = /^\w+$/.test(name) ? `.${name}` : `["${name}"]`;
      return [name.includes("-") ? `["${name}"]` : name, `*${field}`, `*.*${field}`];
    }),
    censor: "[redacted]",
  },
};
