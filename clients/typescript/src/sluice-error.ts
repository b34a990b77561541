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

/** A gateway says no more: a hundred, and how many others there are. Whoever answers in its place may say a megabyte of them. */
const mostMistakes = 101;
const statusesOfMistakes: readonly number[] = [400, 401, 403, 404, 405, 413, 415];

/** Returns the error that a problem document says; undefined: the answer is no such document, or the mistake is not the caller's. */
export function errorOf(status: number, document: unknown): SluiceError | undefined {
  if (!statusesOfMistakes.includes(status) || typeof document !== "object" || document === null) return undefined;
  const { code, detail, errors } = document as Record<string, unknown>;
  if (typeof code !== "string" || code === "") return undefined;
  const mistakes = Array.isArray(errors) ? errors.slice(0, mostMistakes).filter(isObject).map(mistakeOf) : [];
  return new SluiceError(code, status, typeof detail === "string" ? detail : "", mistakes);
}

const inCheck = /^checks\[(\d+)\]\.?/;

/** An error of a request, and what it says of each of its checks. */
export interface SplitError {
  /** By the places of the checks that it names. Their callers do not know the others, so paths begin at the check. */
  readonly named: ReadonlyMap<number, SluiceError>;
  /** For all others, who share it: it may be long, and is copied once. */
  readonly ofOthers: SluiceError;
}

/** @param count of the checks in the request */
export function splitError({ code, status, detail, errors }: SluiceError, count: number): SplitError {
  const common: Mistake[] = [];
  const own = new Map<number, Mistake[]>();
  for (const mistake of errors) {
    const found = inCheck.exec(mistake.path);
    const place = Number(found?.[1] ?? Number.NaN);
    if (found === null) common.push(mistake);
    else if (place < count) {
      const ofPlace = own.get(place) ?? [];
      own.set(place, ofPlace);
      ofPlace.push({ ...mistake, path: mistake.path.slice(found[0].length) });
    }
  }
  const named = new Map([...own].map(([place, ofPlace]) => [place, new SluiceError(code, status, detail, ofPlace)]));
  return { named, ofOthers: new SluiceError(code, status, detail, common) };
}

/** Returns the error of a request with one check, as its caller knows it. */
export function errorOfOnly(error: SluiceError): SluiceError {
  const { named, ofOthers } = splitError(error, 1);
  const own = named.get(0)?.errors ?? [];
  return new SluiceError(error.code, error.status, error.detail, [...own, ...ofOthers.errors]);
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
