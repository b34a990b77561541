// Where the control plane serves the console.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { consolePaths } from "../../../control-plane/src/plugins/console.ts";

it("serves it at the pages that its router has", () => {
  const router = readFileSync(join(import.meta.dirname, "../../../console/src/app/router.tsx"), "utf8");
  const paths = [...router.matchAll(/path: "(\/[^"]*)"/g)].map(([, path]) => `/${path?.split("/")[1]}`);
  expect(new Set(paths)).toEqual(new Set(consolePaths));
});
