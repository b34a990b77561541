// Errors of Node's sockets, which the drivers of databases pass on.

const codes = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOENT",
]);

/** ENOENT: there is no such socket file. A host with several addresses fails with one error for each. */
export function isNetworkError(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isNetworkError);
  return error instanceof Error && "code" in error && codes.has(String(error.code));
}
