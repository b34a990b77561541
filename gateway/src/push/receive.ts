// What comes in over the push socket: the size of the fleet, and snapshots. A snapshot is taken whole, by every worker, or
// refused whole with the reasons.

import type { ControlMessage, GatewayMessage } from "../../../limiter/src/policy/snapshot.ts";
import type { Problem } from "../../../limiter/src/policy/validate.ts";
import { cjson } from "../runtime/lua-modules.ts";
import type { Settings } from "../settings.ts";
import { currentSnapshot } from "../snapshot/current.ts";
import { store } from "../snapshot/disk.ts";
import { publish, readSnapshotText, waitUntilApplied } from "../snapshot/distribution.ts";
import { setLiveGateways } from "./fleet.ts";

const applyTimeoutSeconds = 10;

/** Does what a message of the control plane's asks. Yields. @returns what to tell it, if anything */
export function receive(settings: Settings, text: string): GatewayMessage | undefined {
  const [message] = cjson.decode<ControlMessage>(text);
  if (message?.type === "fleet") {
    if (typeof message.gateways === "number" && message.gateways >= 1) setLiveGateways(message.gateways);
    return undefined;
  }
  const applied = message?.type === "snapshot" ? take(settings, text) : notASnapshot(text);
  if (applied.problems.length === 0) {
    return { type: "applied", epoch: applied.epoch, revision: applied.revision };
  }
  for (const { path, expected, got } of applied.problems) {
    ngx.log(
      ngx.ERR,
      "sluice: push: refused revision ",
      applied.revision,
      ": ",
      path,
      ": expected ",
      expected,
      ", got ",
      got,
    );
  }
  return { type: "refused", ...applied };
}

interface Taking {
  readonly epoch: string;
  readonly revision: number;
  readonly problems: Problem[];
}

function notASnapshot(text: string): Taking {
  return {
    epoch: "",
    revision: 0,
    problems: [{ path: "", expected: "a message of Sluice's", got: `${text.length} bytes of something else` }],
  };
}

/** Reads a snapshot, and if it is good has every worker decide by it. The old one serves until then, or on. */
function take(settings: Settings, text: string): Taking {
  const { snapshot, problems } = readSnapshotText(text);
  if (snapshot === undefined) {
    const [message] = cjson.decode<{ epoch?: unknown; revision?: unknown }>(text);
    const { epoch, revision } = message ?? {};
    return { epoch: `${epoch}`, revision: typeof revision === "number" ? revision : 0, problems };
  }
  const { epoch, revision } = snapshot;
  const serving = currentSnapshot();
  if (serving.epoch === epoch && serving.revision > revision) {
    problems.push({ path: "revision", expected: `${serving.revision} or later`, got: `${revision}` });
    return { epoch, revision, problems };
  }
  const [publishedVersion, failure] = publish(text);
  if (publishedVersion === undefined) {
    problems.push({
      path: "",
      expected: "a snapshot that fits the shared dict sluice_state: make it larger in nginx.conf",
      got: `${text.length} bytes: ${failure}`,
    });
    return { epoch, revision, problems };
  }
  const storeFailure = store(settings.gatewayDir, text);
  if (storeFailure !== undefined) {
    ngx.log(ngx.ERR, "sluice: cannot keep the snapshot in ", settings.gatewayDir, ": ", storeFailure);
  }
  if (!waitUntilApplied(publishedVersion, applyTimeoutSeconds)) {
    problems.push({
      path: "",
      expected: `every worker to apply it within ${applyTimeoutSeconds} s`,
      got: "a worker that did not",
    });
  }
  return { epoch, revision, problems };
}
