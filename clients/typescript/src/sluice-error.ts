// The caller's mistake, as the gateway names it: a call whose request can never be decided as it is. That nobody could be asked is
// no error, but a failure, and `onFailure` decides then.

/** What is wrong at one place of the request. */
export interface Mistake {
  readonly path: string;
  readonly expected: string;
  readonly got: string;
}

/** Codes, statuses and their meanings are those of the check API. */
export class SluiceError extends Error {
  override readonly name = "SluiceError";
  /** For programs to decide by: "policy-not-found", for example. */
  readonly code: string;
  /** Of the HTTP answer. */
  readonly status: number;
  /** A sentence for people. */
  readonly detail: string;
  readonly errors: readonly Mistake[];

  constructor(code: string, status: number, detail: string, errors: readonly Mistake[] = []) {
    const places = errors.map(({ path, expected, got }) => `; ${path}: expected ${expected}, got ${got}`);
    super(`${code} (${status}): ${detail}${places.join("")}`);
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.errors = errors;
  }
}

const statusesOfMistakes: readonly number[] = [400, 401, 403, 404, 405, 413, 415];

/** Returns the error that a problem document says; undefined: the answer is no such document, or the mistake is not the caller's. */
export function errorOf(status: number, document: unknown): SluiceError | undefined {
  if (!statusesOfMistakes.includes(status) || typeof document !== "object" || document === null) return undefined;
  const { code, detail, errors } = document as Record<string, unknown>;
  if (typeof code !== "string" || code === "") return undefined;
  const mistakes = Array.isArray(errors) ? errors.filter(isObject).map(mistakeOf) : [];
  return new SluiceError(code, status, typeof detail === "string" ? detail : "", mistakes);
}

const inCheck = /^checks\[(\d+)\]\.?/;

/** Returns the checks that the error names, by their places in the request. */
export function namedChecks(error: SluiceError, count: number): Set<number> {
  const places = error.errors.map(({ path }) => Number(inCheck.exec(path)?.[1] ?? Number.NaN));
  return new Set(places.filter((place) => place < count));
}

/** Returns the error as it concerns one check alone, whose caller does not know the others of the request. */
export function errorOfCheck(error: SluiceError, place: number): SluiceError {
  const own = error.errors.flatMap(({ path, expected, got }) => {
    const found = inCheck.exec(path);
    if (found !== null && Number(found[1]) !== place) return [];
    return [{ path: path.slice(found?.[0].length ?? 0), expected, got }];
  });
  return new SluiceError(error.code, error.status, error.detail, own);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function mistakeOf({ path, expected, got }: Record<string, unknown>): Mistake {
  return { path: textOf(path), expected: textOf(expected), got: textOf(got) };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
