// What the docs show of the code, between markers in pages that are otherwise written by hand. A test makes the pages again and compares.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describeApi } from "./api.ts";
import { restParts } from "./rest-page.ts";
import { rightsTable } from "./rights-table.ts";

export const docs = join(import.meta.dirname, "..");

/** Page → its text, with what is written of the code as it is now. @throws Error if a page has no place for something */
export async function pages(): Promise<Map<string, string>> {
  const api = await describeApi();
  const parts = {
    "rest.md": restParts(api),
    "security.md": new Map([["rights", rightsTable(api.routes)]]),
  };
  return new Map(Object.entries(parts).map(([page, ofPage]) => [page, written(page, ofPage)]));
}

/** @param parts by the name that their markers have */
function written(page: string, parts: ReadonlyMap<string, string>): string {
  const left = new Set(parts.keys());
  const between = /^(<!-- written by npm run docs: (.+?) -->\n).*?(^<!-- end -->$)/gms;
  const text = readFileSync(join(docs, page), "utf8").replace(
    between,
    (_, begin: string, name: string, end: string) => {
      const part = parts.get(name);
      if (part === undefined) throw new Error(`docs/${page}: there is nothing called ${name} to write`);
      left.delete(name);
      return `${begin}\n${part.trim()}\n\n${end}`;
    },
  );
  if (left.size === 0) return text;
  const [name] = left;
  throw new Error(
    `docs/${page}: expected a place for it, the lines "<!-- written by npm run docs: ${name} -->" and "<!-- end -->"`,
  );
}
