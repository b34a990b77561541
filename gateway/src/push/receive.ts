// Handles messages from the push socket: the size of the fleet, orders about one counter, and snapshots. A snapshot is applied as
// a whole by every worker, or refused as a whole with the reasons.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import type { Problem } from "../../../limiter/src/document/validate.ts";
import type { ControlMessage, GatewayMessage } from "../../../limiter/src/protocol/push-messages.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { inSlices } from "../runtime/slices.ts";
import type { Settings } from "../settings.ts";
import { currentSnapshot } from "../snapshot/current.ts";
import { store } from "../snapshot/disk.ts";
import { allApplied, publish, waitUntilApplied } from "../snapshot/distribution.ts";
import { isFleetSize, keepLiveGateways } from "../snapshot/live-gateways.ts";
import { readPieces } from "../snapshot/text.ts";
import { setActivityTaken } from "./activity-reports.ts";
import { isCounterOrder, obey } from "./counter-orders.ts";

const applyTimeoutSeconds = 10;

/** As control planes write it: a snapshot is recognised without decoding it. */
const snapshotBeginning = '{"type":"snapshot",';

/**
 * Limit for the problems reported and logged of one refusal: a document from a newer control plane may have ten thousand errors.
 */
const mostProblems = 20;

interface Position {
  readonly epoch: string;
  readonly revision: number;
}

interface Published extends Position {
  readonly version: number;
}

/** A published snapshot that not every worker applied in time. */
let late: Published | undefined;

/**
 * Executes one message from the control plane. Yields.
 *
 * @param pieces the message as snapshot/text.ts cuts it
 * @returns the answer, if any
 */
export function receive(settings: Settings, pieces: readonly string[]): GatewayMessage | undefined {
  if (beginsSnapshot(pieces)) return take(settings, pieces);
  const [message] = cjson.decode<ControlMessage>(pieces.join(""));
  const type = typeof message === "object" ? message.type : undefined;
  if (type === "fleet") {
    const { gateways, takesActivity } = message as { gateways: unknown; takesActivity: unknown };
    setActivityTaken(takesActivity === true);
    if (isFleetSize(gateways)) keepLiveGateways(settings.gatewayDir, gateways);
    return undefined;
  }
  if (type === "counter" && isCounterOrder(message)) return obey(message);
  return type === "snapshot"
    ? take(settings, pieces)
    : refuse(pieces, [
        {
          path: "",
          expected: "a message that this gateway understands",
          got: `${bytesOf(pieces)} bytes of something else`,
        },
      ]);
}

/** Returns whether the message is a snapshot, by its first characters; `receive` takes long for one. */
export function beginsSnapshot(pieces: readonly string[]): boolean {
  return string.find(pieces[0] ?? "", snapshotBeginning, 1, true)[0] === 1;
}

/** Called in each turn of the socket's owner. @returns the report that a late revision is now in force, as soon as it is */
export function lateAnswer(): GatewayMessage | undefined {
  if (late === undefined || !allApplied(late.version)) return undefined;
  const { epoch, revision } = late;
  late = undefined;
  return { type: "applied", epoch, revision };
}

/**
 * Reads a snapshot and, if it is valid, makes every worker use it. The old one serves until then; after a refusal it goes on
 * serving.
 */
function take(settings: Settings, pieces: readonly string[]): GatewayMessage | undefined {
  const taken = inSlices(bytesOf(pieces), (pause) => publishRead(settings, pieces, pause));
  if ("type" in taken) return taken;
  const { epoch, revision, version } = taken;
  late = undefined;
  if (waitUntilApplied(version, applyTimeoutSeconds)) return { type: "applied", epoch, revision };
  // Neither applied nor refused: the control plane shows that this gateway lags, which is true.
  ngx.log(ngx.WARN, "sluice: push: not every worker has applied revision ", revision, " yet");
  late = taken;
  return undefined;
}

/** @returns the published snapshot, or the refusal */
function publishRead(settings: Settings, pieces: readonly string[], pause: Pause): Published | GatewayMessage {
  const serving = currentSnapshot();
  const { snapshot, problems } = readPieces((place) => pieces[place], serving, pause);
  if (snapshot === undefined) return refuse(pieces, problems);
  const { epoch, revision } = snapshot;
  if (serving.epoch === epoch && serving.revision > revision) {
    return refuse(pieces, [{ path: "revision", expected: `${serving.revision} or later`, got: `${revision}` }]);
  }
  const [version, failure] = publish(pieces, snapshot, pause);
  if (version === undefined) {
    const expected = "a snapshot that fits the shared dict sluice_state: make it larger in nginx.conf";
    return refuse(pieces, [{ path: "snapshot", expected, got: `${bytesOf(pieces)} bytes: ${failure}` }]);
  }
  const storeFailure = store(settings.gatewayDir, pieces, pause);
  if (storeFailure !== undefined) {
    ngx.log(ngx.ERR, "sluice: cannot write the snapshot to ", settings.gatewayDir, ": ", storeFailure);
  }
  return { epoch, revision, version };
}

function refuse(pieces: readonly string[], problems: readonly Problem[]): GatewayMessage {
  const { epoch, revision } = positionOf(pieces[0] ?? "");
  const reported = problems.slice(0, mostProblems);
  for (const { path, expected, got } of reported) {
    const what = `${path}: expected ${expected}, got ${got}`;
    ngx.log(ngx.ERR, "sluice: push: refused revision ", revision, ": ", what);
  }
  if (problems.length > mostProblems) {
    const more = `${problems.length - mostProblems} more problems`;
    reported.push({ path: "", expected: "a snapshot without problems", got: more });
  }
  return { type: "refused", epoch, revision, problems: reported };
}

/** Reads the epoch and revision of a message even if it cannot be decoded, so that the operator sees which one was refused. */
function positionOf(text: string): Position {
  const [epoch, revision] = string.match(text, '"epoch":"([%w-]*)","revision":(%d+)');
  return { epoch: epoch ?? "", revision: tonumber(revision ?? "0") ?? 0 };
}

function bytesOf(pieces: readonly string[]): number {
  let bytes = 0;
  for (const piece of pieces) bytes += piece.length;
  return bytes;
}
