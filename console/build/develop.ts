// `npm run console`: serves the console to somebody who works on it, who sees each change at once. A control plane must run
// (npm start); SLUICE_CONTROL_URL says where, if it is not on this machine's usual port.

import { join } from "node:path";
import { createServer } from "vite";

const server = await createServer({ configFile: join(import.meta.dirname, "../vite.config.ts") });
await server.listen();
server.printUrls();
