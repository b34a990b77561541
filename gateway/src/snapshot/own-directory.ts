// The directory that workers keep their files in: whether they can, and that nobody else opens what is there.

import { closeToOthers, ownAccount, whyNotWritable } from "../runtime/system-calls.ts";
import type { Settings } from "../settings.ts";
import { formerSnapshotFile, snapshotFile } from "./disk.ts";
import { liveGatewaysFile } from "./live-gateways.ts";

/** Where nothing is named and the prefix is not theirs. */
const usualDirectory = "/var/lib/sluice";

/** For one worker's start: it knows who workers run as, which the configuration may not say. */
export function lookAfterOwnDirectory({ gatewayDir, gatewayDirNamed }: Settings): void {
  const failure = whyNotWritable(gatewayDir);
  if (failure !== undefined) {
    ngx.log(ngx.ERR, "sluice: ", whatToMake(gatewayDir, gatewayDirNamed, failure));
    return;
  }
  // An earlier version made them as the umask said, and nginx in the background has none.
  for (const name of [snapshotFile, formerSnapshotFile, liveGatewaysFile]) {
    const left = closeToOthers(gatewayDir + name);
    if (left !== undefined) {
      ngx.log(ngx.ERR, "sluice: cannot take from others the right to write ", gatewayDir, name, ": ", left);
    }
  }
}

function whatToMake(gatewayDir: string, isNamed: boolean, failure: string): string {
  const account = ownAccount();
  const directory = isNamed ? gatewayDir : usualDirectory;
  const command = `mkdir -p ${directory} && chown ${account} ${directory}`;
  const naming = `, set SLUICE_GATEWAY_DIR=${directory} in nginx's environment and write "env SLUICE_GATEWAY_DIR;" into nginx.conf`;
  return (
    `nginx's workers run as ${account} and cannot write in ${gatewayDir} (${failure}): this gateway limits, but keeps ` +
    `no policies for a start without the control plane. As root: ${command}${isNamed ? "" : naming}; then start nginx anew`
  );
}
