// `npm run docs`: writes what the docs show of the code, and the types of the API that the console has.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { apiTypes, apiTypesFile } from "../../console/build/api-types.ts";
import { describeApi } from "./api.ts";
import { docs, pages } from "./pages.ts";

for (const [page, text] of await pages()) writeFileSync(join(docs, page), text);
writeFileSync(apiTypesFile, await apiTypes((await describeApi()).description));
