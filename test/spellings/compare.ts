// Compares what servers read of a request with what Sluice counts it under.

import type { Case, Kind } from "./cases.ts";
import { type Place, plainSpelling, type Readings, type SpelledRequest } from "./server.ts";
import { readBySluice } from "./sluice.ts";

export interface Difference {
  readonly server: string;
  readonly place: Place;
  readonly request: SpelledRequest;
  /** What the server reads. */
  readonly read: string;
  readonly counted: string | undefined;
}

/** Those that leave percent-encodings in cookies as they are. Whoever sends a value to them sends it as it is. */
const readsCookiesAsWritten = new Set([
  "Django",
  "Werkzeug",
  "Starlette",
  "Go",
  "Tomcat",
  "Jetty",
  "tough-cookie",
  "ASP.NET (model)",
]);

/** Finds differences, and remembers under what each value has been counted. */
export class Comparison {
  readonly #counters = new Map<string, string | undefined>();

  /**
   * A difference: a server reads a value which, in its plain spelling, Sluice counts under something else, or has already counted under
   * something else in another spelling.
   */
  differencesOf({ kind, request }: Case, servers: Readonly<Record<string, Readings>>): Difference[] {
    const counted = readBySluice(kind, request);
    // It is answered 400.
    if (counted === false) return [];
    const differences: Difference[] = [];
    for (const [server, readings] of Object.entries(servers)) {
      for (const place of placesOf(kind)) {
        if (counted === undefined && isOfCookieAlone(place, readings)) continue;
        for (const read of readings[place] ?? []) {
          if (read !== "" && !this.#isCounted(kind, request, server, read, counted)) {
            differences.push({ server, place, request, read, counted });
          }
        }
      }
    }
    return differences;
  }

  #isCounted(kind: Kind, request: SpelledRequest, server: string, read: string, counted: string | undefined): boolean {
    if (read === counted) return true;
    const plain = readBySluice(kind, plainRequest(kind, request, read, readsCookiesAsWritten.has(server)));
    if (plain !== false) return plain === counted;
    const id = JSON.stringify([kind, request.name, server, read]);
    if (!this.#counters.has(id)) this.#counters.set(id, counted);
    return this.#counters.get(id) === counted;
  }
}

/** @returns the difference in a line */
export function inWords({ server, place, request, read, counted }: Difference): string {
  const { name, ...sent } = request;
  const written = Object.entries(sent).filter(([, text]) => text !== "");
  return `${server}, ${place} "${name}": reads ${JSON.stringify(read)}, counted ${JSON.stringify(counted)}: ${JSON.stringify(Object.fromEntries(written))}`;
}

/** A list that has a value of a cookie alone: such a field is absent to Sluice, so that no cookie is a decoy beside what is nowhere else. */
function isOfCookieAlone(place: Place, { query = [], form = [] }: Readings): boolean {
  return place === "merged" && query.length === 0 && form.length === 0;
}

function placesOf(kind: Kind): readonly Place[] {
  return kind === "form" ? ["form", "merged"] : [kind];
}

function plainRequest(kind: Kind, { name }: SpelledRequest, value: string, asWritten: boolean): SpelledRequest {
  const plain = { name, query: "", body: "", type: "", cookie: "" };
  if (kind === "query") return { ...plain, query: plainSpelling(name, value) };
  if (kind === "form") return { ...plain, body: plainSpelling(name, value), type: "application/x-www-form-urlencoded" };
  return { ...plain, cookie: `${name}=${asWritten ? value : plainSpelling("", value).slice(1)}` };
}
