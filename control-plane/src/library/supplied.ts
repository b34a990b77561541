// The library: actions and policies for common purposes that are supplied with Sluice. They are a part of the program: read from
// control-plane/library once, as the control plane starts. A test holds each file to what it must say.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readYaml } from "../bodies/read-yaml.ts";

export const kinds = ["action", "policy"] as const;

export interface Supplied extends Words {
  readonly name: string;
  /** action: an onLimit, which policies may refer to. policy: all that a policy needs besides its name and what it matches. */
  readonly kind: (typeof kinds)[number];
  /** Keyed by language. */
  readonly translations: Readonly<Record<string, Words>>;
  readonly document: Readonly<Record<string, unknown>>;
}

export interface Words {
  readonly title: string;
  /** What it is for, what the client sees, and what to change. */
  readonly description: string;
}

/** By name, in alphabetical order. */
export const library: ReadonlyMap<string, Supplied> = readLibrary(join(import.meta.dirname, "../../library"));

/** Returns the names of one kind. */
export function suppliedNames(kind: Supplied["kind"]): string[] {
  return [...library.values()].filter((one) => one.kind === kind).map(({ name }) => name);
}

/** @throws Error that names the file, if one cannot be read */
function readLibrary(directory: string): Map<string, Supplied> {
  const files = readdirSync(directory).filter((file) => file.endsWith(".yaml"));
  const all = files.map((file) => readSupplied(join(directory, file)));
  all.sort((a, b) => (a.name < b.name ? -1 : 1));
  return new Map(all.map((one) => [one.name, one]));
}

function readSupplied(path: string): Supplied {
  const reading = readYaml(readFileSync(path, "utf8"));
  if ("refusal" in reading) throw new Error(`${path}: ${reading.refusal}`);
  const { zh, ...supplied } = JSON.parse(reading.json) as Omit<Supplied, "translations"> & { zh: Words };
  return { ...supplied, translations: { zh } };
}
