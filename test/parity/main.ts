// `npm run parity`: plays a million random decisions of each algorithm in Node and in each other runtime, and prints what was
// compared. With --break, one line is broken in all but Node, and the run succeeds if the break is found. See README.md here.

import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import { build } from "./build.ts";
import { type Command, readCommand, runCommand, UsageError } from "./command.ts";

const command = readOrExit();
await requireSystemPackages("test", process.env["SLUICE_NGINX"]);
await requireGatewayBuild();
const built = await build(command.broken, command.options.runtimes);
try {
  process.exitCode = await runCommand(command, built, (text) => process.stdout.write(text));
} finally {
  built.remove();
}

function readOrExit(): Command {
  try {
    return readCommand(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(2);
  }
}
