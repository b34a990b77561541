// What a server of the comparison is: it reads a name in a request, in each place where it looks for names.

/** In each text, a character is a byte. */
export interface SpelledRequest {
  /** What is looked for, as a policy's key names it. */
  readonly name: string;
  /** Without the "?". */
  readonly query: string;
  readonly body: string;
  /** The header Content-Type; empty: there is none. */
  readonly type: string;
  /** The header Cookie. */
  readonly cookie: string;
}

export const places = ["query", "form", "merged", "cookie"] as const;
/** merged: a server's list of both arguments and fields, and of cookies if it has them there, as PHP without a php.ini does. */
export type Place = (typeof places)[number];

/**
 * All texts that the server has for the name, in bytes: of a list or an object, those within it. A place in which it does not look
 * is absent.
 */
export type Readings = Readonly<Partial<Record<Place, readonly string[]>>>;

export interface Servers {
  /** Asks all servers of this process. @returns by the server's name */
  ask(requests: readonly SpelledRequest[]): Promise<readonly Readonly<Record<string, Readings>>[]>;
  stop(): Promise<void>;
}

/** @returns the name with a value as a form has it, and nothing that a server could read in two ways */
export function plainSpelling(name: string, value: string): string {
  return `${escaped(name)}=${escaped(value)}`;
}

function escaped(bytes: string): string {
  return bytes.replace(/[^\w.~-]/g, (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

export function bytesOf(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

/** @returns the texts in a list or an object, in bytes; of a text, itself */
export function leaves(value: unknown): string[] {
  if (value === undefined || value === null) return [];
  return typeof value === "object" ? Object.values(value).flatMap(leaves) : [bytesOf(String(value))];
}
