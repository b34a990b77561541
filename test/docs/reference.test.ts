// What the docs show of the code is what the code says.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { apiTypes, apiTypesFile } from "../../console/build/api-types.ts";
import { describeApi } from "../../docs/reference/api.ts";
import { docs, pages } from "../../docs/reference/pages.ts";

const written = await pages();

it.each([...written.keys()])("docs/%s is what `npm run docs` writes", (page) => {
  expect(readFileSync(join(docs, page), "utf8")).toBe(written.get(page));
});

it("the console's types of the API are what `npm run docs` writes", async () => {
  expect(readFileSync(apiTypesFile, "utf8")).toBe(await apiTypes((await describeApi()).description));
});
