// `npm run control-plane`: starts only the control plane. With arguments, the control plane does what they say, and ends.
import { spawnSync } from "node:child_process";
import { requireConsoleBuild } from "./console-build.ts";
import { requireGatewayBuild } from "./gateway-build.ts";
import { shareGatewayToken } from "./gateway-token.ts";
import { controlPlane, controlPorts } from "./parts.ts";
import { requireFreePorts } from "./ports.ts";
import { Processes } from "./processes.ts";
import { controlUrlHere, untilAnswers } from "./readiness.ts";
import { readSettingsAloud } from "./settings.ts";
import { fail, say } from "./step.mjs";
import { becomeOwner } from "./worker-account.ts";

try {
  const settings = readSettingsAloud(process.env);
  const wanted = process.argv.slice(2);
  if (wanted.length > 0) {
    await becomeOwner(settings.dataDir, []);
    const { command, args, env } = controlPlane(settings, undefined);
    process.exit(spawnSync(command, [...args, ...wanted], { env, stdio: "inherit" }).status ?? 1);
  }
  await requireFreePorts(controlPorts(settings));
  // The control plane loads the gateways' scripts into Redis, and the gateway's build makes them.
  if (settings.redisUrl !== undefined) await requireGatewayBuild();
  await requireConsoleBuild();
  await becomeOwner(settings.dataDir, controlPorts(settings));
  const processes = new Processes();
  processes.start(controlPlane(settings, shareGatewayToken(settings)));
  await untilAnswers("control plane", `${controlUrlHere(settings)}/readyz`);
  processes.ready();
  say(`console at ${controlUrlHere(settings)}, API at ${controlUrlHere(settings)}/docs`);
  say("ready");
} catch (error) {
  fail(error);
}
