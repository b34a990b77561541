// `npm run build`: builds what nginx and browsers run.
import { requireConsoleBuild } from "./console-build.ts";
import { requireGatewayBuild } from "./gateway-build.ts";
import { fail } from "./step.mjs";

try {
  await requireGatewayBuild();
  await requireConsoleBuild();
} catch (error) {
  fail(error);
}
