// `npm run pictures`: writes the pictures of ../algorithms.md.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pictures } from "./draw.ts";

for (const [name, text] of pictures()) writeFileSync(join(import.meta.dirname, name), text);
