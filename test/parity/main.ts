// `npm run parity`: plays a million random decisions of each algorithm in Node and in each other runtime, and prints what was
// compared. With --break, one line is broken in all but Node, and the run succeeds if the break is found. See README.md here.

import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { fail } from "../../launch/step.mjs";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import { build } from "./build.ts";
import { readCommand, runCommand } from "./command.ts";

try {
  const command = readCommand(process.argv.slice(2));
  await requireSystemPackages("test", process.env["SLUICE_NGINX"]);
  await requireGatewayBuild();
  const built = await build(command.broken, command.options.runtimes);
  try {
    process.exitCode = await runCommand(command, built, (text) => process.stdout.write(text));
  } finally {
    built.remove();
  }
} catch (error) {
  fail(error);
}
