// `npm start`: runs all of Sluice on one machine, with a demo upstream unless SLUICE_UPSTREAM names another one.
import { requireConsoleBuild } from "./console-build.ts";
import { requireGatewayBuild } from "./gateway-build.ts";
import { requireGatewayToken, shareGatewayToken } from "./gateway-token.ts";
import { requireNginx } from "./nginx-binary.ts";
import { controlPlane, controlPorts, demoUpstream, gateway, gatewayPorts, upstreamPorts } from "./parts.ts";
import { requireFreePorts } from "./ports.ts";
import { Processes } from "./processes.ts";
import {
  checkUrlsHere,
  controlUrlHere,
  gatewayUrlHere,
  privateUrlHere,
  untilAnswers,
  untilConnected,
  untilServes,
  upstreamUrlHere,
} from "./readiness.ts";
import { readSettingsAloud, type Settings } from "./settings.ts";
import { requireFreeSocket } from "./socket-file.ts";
import { fail, say } from "./step.mjs";
import { requireSystemPackages } from "./system-packages.ts";
import { becomeOwner } from "./worker-account.ts";

try {
  await start(readSettingsAloud(process.env));
} catch (error) {
  fail(error);
}

async function start(settings: Settings): Promise<void> {
  const withDemo = settings.upstream === undefined && settings.role === "gateway";
  const ports = [...gatewayPorts(settings), ...controlPorts(settings), ...(withDemo ? upstreamPorts(settings) : [])];
  await requireFreePorts(ports);
  await requireSystemPackages("run", settings.nginx);
  const nginx = requireNginx(settings.nginx);
  await requireGatewayBuild();
  await requireConsoleBuild();
  await becomeOwner(settings.dataDir, ports);
  await requireFreeSocket(settings.checkSocket);

  const processes = new Processes();
  let firstAdminToken: string | undefined;
  const onLine = (line: string) => {
    firstAdminToken ??= /^sluice: admin token \(shown once\): (\S+)$/.exec(line)?.[1];
  };
  processes.start({ ...controlPlane(settings, shareGatewayToken(settings)), restarts: true, onLine });
  if (withDemo) processes.start(demoUpstream(settings));
  await untilAnswers("control plane", `${controlUrlHere(settings)}/readyz`);
  const token = await requireGatewayToken(settings);
  processes.start(gateway(settings, nginx, token));
  await untilServes(settings);
  await untilConnected(settings);
  if (withDemo) await untilAnswers("demo upstream", upstreamUrlHere(settings));
  const adminToken = firstAdminToken ?? knownAdminToken();
  if (settings.role === "service") announceService(settings, adminToken, firstAdminToken);
  else announceGateway(settings, adminToken, firstAdminToken);
  processes.ready();
  say("ready");
}

function announceGateway(settings: Settings, adminToken: string, firstAdminToken: string | undefined): void {
  const gatewayUrl = gatewayUrlHere(settings);
  const controlUrl = controlUrlHere(settings);
  const policy =
    '{"match":{"paths":["/hello"]},"key":["ip"],"limits":[{"name":"burst","algorithm":"fixed-window","quota":2,"window":"10s"}]}';
  process.stdout.write(`
  gateway        ${gatewayUrl}  →  ${settings.upstream ?? `${upstreamUrlHere(settings)} (demo upstream)`}
  console        ${controlUrl}   API ${controlUrl}/docs
  metrics        ${privateUrlHere(settings)}/sluice/metrics
  admin token    ${adminToken}

  Try: two calls in ten seconds are let through, the third is refused.
    curl -X PUT '${controlUrl}/api/v1/apps/default/policies/hello?wait=5s' \\
      -H "authorization: Bearer ${firstAdminToken ?? "$SLUICE_API_TOKEN"}" -H 'content-type: application/json' \\
      -d '${policy}'
    curl -i ${gatewayUrl}/hello

`);
}

function announceService(settings: Settings, adminToken: string, firstAdminToken: string | undefined): void {
  const controlUrl = controlUrlHere(settings);
  const token = firstAdminToken ?? "$SLUICE_API_TOKEN";
  const headers = `-H "authorization: Bearer ${token}" -H 'content-type: application/json'`;
  const policy = '{"key":["const:all"],"limits":[{"name":"rate","algorithm":"token-bucket","quota":2,"window":"10s"}]}';
  process.stdout.write(`
  check API      ${checkUrlsHere(settings).join("   ")}
  console        ${controlUrl}   API ${controlUrl}/docs
  metrics        ${privateUrlHere(settings)}/sluice/metrics
  admin token    ${adminToken}

  Try: a policy, a token for those who ask, and three checks. The third is refused.
    curl -X PUT '${controlUrl}/api/v1/apps/default/policies/hello?wait=5s' ${headers} \\
      -d '${policy}'
    curl -X POST '${controlUrl}/api/v1/tokens?wait=5s' ${headers} -d '{"name":"my-service","app":"default","role":"caller"}'
    curl ${privateUrlHere(settings)}/sluice/v1/check -H "authorization: Bearer TOKEN" -H 'content-type: application/json' \\
      -d '{"checks":[{"policy":"hello","key":["all"]}]}'

`);
}

/**
 * Describes where the admin token is known from. Only its hash is stored: after the first start nobody can print it again.
 */
function knownAdminToken(): string {
  if (process.env["SLUICE_ADMIN_TOKEN"]) return "the one in SLUICE_ADMIN_TOKEN";
  return "the one that the first start printed; lost it? set SLUICE_ADMIN_TOKEN to one of your own";
}
