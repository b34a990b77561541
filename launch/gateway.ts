// `npm run gateway`: starts only one gateway. SLUICE_CONTROL_URL says which control plane it connects to. With `--
// --print-config` it prints the nginx configuration that it would run, and exits.
import { requireGatewayBuild } from "./gateway-build.ts";
import { requireGatewayToken } from "./gateway-token.ts";
import { requireNginx } from "./nginx-binary.ts";
import { beforeRunning, renderNginxConfig } from "./nginx-config.ts";
import { gateway, gatewayPorts } from "./parts.ts";
import { requireFreePorts } from "./ports.ts";
import { Processes } from "./processes.ts";
import { checkUrlsHere, gatewayUrlHere, untilConnected, untilServes } from "./readiness.ts";
import { readSettings, readSettingsAloud, type Settings } from "./settings.ts";
import { requireFreeSocket } from "./socket-file.ts";
import { fail, SetupError, say } from "./step.mjs";
import { requireSystemPackages } from "./system-packages.ts";
import { becomeOwner, giveUpRoot } from "./worker-account.ts";

try {
  const [option] = process.argv.slice(2);
  if (option === "--print-config") {
    const settings = readSettings(process.env);
    const line = giveUpRoot(settings.dataDir);
    if (line !== undefined) process.stderr.write(`sluice: ${line}\n`);
    process.stdout.write(renderNginxConfig(settings, requireNginx(settings.nginx)));
    // These lines go to standard error, because the configuration on standard output may be redirected to a file.
    for (const line of beforeRunning(settings)) process.stderr.write(`sluice: ${line}\n`);
  } else if (option === undefined) {
    await start(readSettingsAloud(process.env));
  } else {
    throw new SetupError(`expected --print-config or nothing, got ${option}`);
  }
} catch (error) {
  fail(error);
}

async function start(settings: Settings): Promise<void> {
  await requireFreePorts(gatewayPorts(settings));
  await requireSystemPackages("run", settings.nginx);
  const nginx = requireNginx(settings.nginx);
  await requireGatewayBuild();
  await becomeOwner(settings.dataDir, gatewayPorts(settings));
  await requireFreeSocket(settings.checkSocket);
  const token = await requireGatewayToken(settings);

  const processes = new Processes();
  processes.start(gateway(settings, nginx, token));
  await untilServes(settings);
  await untilConnected(settings);
  processes.ready();
  const { role, gatewayId, controlUrl } = settings;
  const at = role === "service" ? `${checkUrlsHere(settings).join(", ")}` : gatewayUrlHere(settings);
  say(`${role} ${gatewayId} at ${at}, control plane ${controlUrl}`);
  say("ready");
}
