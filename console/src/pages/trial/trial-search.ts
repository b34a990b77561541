// What the URL of "Try it" says of the request. Headers are not in it: they may have credentials.

export interface TrialSearch {
  readonly app?: string;
  readonly method?: string;
  readonly host?: string;
  readonly path?: string;
  readonly address?: string;
}

export function readTrialSearch(search: Record<string, unknown>): TrialSearch {
  const read: Record<string, string> = {};
  for (const field of ["app", "method", "host", "path", "address"] as const) {
    const value = search[field];
    if (typeof value === "string" && value !== "") read[field] = value;
  }
  return read;
}
