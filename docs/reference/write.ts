// `npm run docs`: writes what the docs show of the code.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { docs, pages } from "./pages.ts";

for (const [page, text] of await pages()) writeFileSync(join(docs, page), text);
