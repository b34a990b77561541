// The directory in which workers keep their files: checks that they can write there, and that nobody else can open the files.

import { closeToOthers, ownAccount, whyNotWritable } from "../runtime/system-calls.ts";
import type { Settings } from "../settings.ts";
import { filesOfEarlierVersions, formerLogFile, logFile } from "./disk.ts";
import { liveGatewaysFile } from "./live-gateways.ts";

/** Suggested if no directory is configured and workers cannot write in the prefix. */
const usualDirectory = "/var/lib/sluice";

/** Called when one worker starts: only a worker knows the account that workers run as, which the configuration may not name. */
export function lookAfterOwnDirectory({ gatewayDir, gatewayDirNamed }: Settings): void {
  const failure = whyNotWritable(gatewayDir);
  if (failure !== undefined) {
    ngx.log(ngx.ERR, "sluice: ", whatToMake(gatewayDir, gatewayDirNamed, failure));
    return;
  }
  // An earlier version created the files by the umask, and an nginx that runs in the background has none.
  for (const name of [logFile, formerLogFile, ...filesOfEarlierVersions, liveGatewaysFile]) {
    const left = closeToOthers(gatewayDir + name);
    if (left !== undefined) {
      ngx.log(ngx.ERR, "sluice: cannot restrict to its owner the file ", gatewayDir, name, ": ", left);
    }
  }
}

function whatToMake(gatewayDir: string, isNamed: boolean, failure: string): string {
  const account = ownAccount();
  const directory = isNamed ? gatewayDir : usualDirectory;
  const command = `mkdir -p ${directory} && chown ${account} ${directory}`;
  const naming = `, set SLUICE_GATEWAY_DIR=${directory} in nginx's environment and write "env SLUICE_GATEWAY_DIR;" into nginx.conf`;
  return (
    `nginx's workers run as ${account} and cannot write in ${gatewayDir} (${failure}): this gateway limits requests, but ` +
    `cannot store policies for a start without the control plane. As root: ${command}${isNamed ? "" : naming}; then restart nginx`
  );
}
