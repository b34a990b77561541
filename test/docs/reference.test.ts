// What the docs show of the code is what the code says.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { docs, pages } from "../../docs/reference/pages.ts";

const written = await pages();

it.each([...written.keys()])("docs/%s is what `npm run docs` writes", (page) => {
  expect(readFileSync(join(docs, page), "utf8")).toBe(written.get(page));
});
