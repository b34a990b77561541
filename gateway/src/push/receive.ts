// Handles messages from the push socket: the size of the fleet, orders about one counter, and snapshots and deltas. What these change
// is applied as a whole by every worker, or refused as a whole with the reasons.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { noFindings } from "../../../limiter/src/document/problems.ts";
import type { Problem } from "../../../limiter/src/document/validate.ts";
import {
  type ControlMessage,
  deltasSince,
  type GatewayMessage,
  protocolVersion,
} from "../../../limiter/src/protocol/push-messages.ts";
import { readFrame } from "../../../limiter/src/protocol/read-frame.ts";
import { prepareChange } from "../../../limiter/src/state/change.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { inSlices } from "../runtime/slices.ts";
import { logSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import type { Settings } from "../settings.ts";
import { allApplied, ownVersion, waitUntilApplied } from "../snapshot/applied-versions.ts";
import { currentState } from "../snapshot/current.ts";
import { catchUp } from "../snapshot/distribution.ts";
import { isFleetSize, keepLiveGateways } from "../snapshot/live-gateways.ts";
import {
  allNamesGone,
  changedMeanwhile,
  heldEntries,
  isPublishing,
  publish,
  startPublishing,
} from "../snapshot/publication.ts";
import { publishedVersion } from "../snapshot/shared-entries.ts";
import { bytesOf, json } from "../snapshot/text.ts";
import { setActivityTaken } from "./activity-reports.ts";
import { beginsConsumers, takeConsumers } from "./consumers.ts";
import { isCounterOrder, obey } from "./counter-orders.ts";
import { storeChange, takeLoss } from "./maintenance.ts";

const applyTimeoutSeconds = 10;

/** As control planes write them: these messages are recognised without decoding them. */
const frameBeginnings = ['{"type":"snapshot",', '{"type":"delta",'];

/** How long a worker that takes over tries to apply what is published already. */
const catchUpSeconds = 5;
const catchUpPollSeconds = 0.01;

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

/** A published revision that not every worker applied in time. */
let late: Published | undefined;

/**
 * Executes one message from the control plane. Yields.
 *
 * @param pieces the message as snapshot/text.ts cuts it
 * @param isAwaited returns whether anybody waits for the answer still
 * @returns the answer, if any
 */
export function receive(
  settings: Settings,
  pieces: readonly string[],
  isAwaited: (this: void) => boolean,
): GatewayMessage | undefined {
  if (beginsFrame(pieces)) return take(settings, pieces, isAwaited);
  if (beginsConsumers(pieces)) return takeConsumers(settings, pieces);
  const [message] = cjson.decode<ControlMessage>(pieces.join(""));
  const type = typeof message === "object" ? message.type : undefined;
  if (type === "fleet") {
    const { gateways, takesActivity, protocol } = message as {
      gateways: unknown;
      takesActivity: unknown;
      protocol: unknown;
    };
    setActivityTaken(takesActivity === true);
    noteProtocol(protocol);
    if (isFleetSize(gateways)) keepLiveGateways(settings.gatewayDir, gateways);
    return undefined;
  }
  if (type === "counter" && isCounterOrder(message)) return obey(message);
  // It gets no answer: a refusal would be taken for one of a snapshot.
  const got = `${bytesOf(pieces)} bytes of something else`;
  logSparingly("push: expected a message that this gateway understands, got", got);
  return undefined;
}

/** Returns whether the message is a snapshot or a delta, by its first characters; `receive` takes long for one. */
export function beginsFrame(pieces: readonly string[]): boolean {
  const [first = ""] = pieces;
  return frameBeginnings.some((beginning) => string.find(first, beginning, 1, true)[0] === 1);
}

let saidOfProtocol: number | undefined;

/** A control plane of version 1 sends everything at every change; one of version 2 has no consumers. */
function noteProtocol(protocol: unknown): void {
  const version = typeof protocol === "number" ? protocol : 1;
  if (version === saidOfProtocol) return;
  saidOfProtocol = version;
  if (version >= protocolVersion) return;
  const ours = string.format("%d", protocolVersion);
  const what = `the control plane speaks version ${string.format("%d", version)} of the push protocol, this gateway ${ours}`;
  const lacks =
    version < deltasSince
      ? "every change is a whole snapshot, and no consumer has its plan"
      : "no consumer has its plan";
  ngx.log(ngx.WARN, "sluice: push: ", what, ": ", lacks, ", until the control plane is updated");
}

/** Called in each turn of the socket's owner. @returns the report that a late revision is now in force, as soon as it is */
export function lateAnswer(): GatewayMessage | undefined {
  if (takeLoss()) return resync();
  if (late === undefined || !allApplied(late.version)) return undefined;
  const { epoch, revision } = late;
  late = undefined;
  return { type: "applied", epoch, revision };
}

/**
 * Reads a snapshot or a delta and, if it is valid, makes every worker use it. What was in force serves until then; after a refusal it
 * goes on serving.
 */
function take(
  settings: Settings,
  pieces: readonly string[],
  isAwaited: (this: void) => boolean,
): GatewayMessage | undefined {
  if (!becomePublisher()) return resync();
  const taken = inSlices(bytesOf(pieces), (pause) => publishRead(settings, pieces, pause));
  if ("type" in taken) return taken;
  const { epoch, revision, version } = taken;
  late = undefined;
  if (waitUntilApplied(version, applyTimeoutSeconds, isAwaited)) return { type: "applied", epoch, revision };
  late = taken;
  if (!isAwaited()) return undefined;
  ngx.log(ngx.WARN, "sluice: push: not every worker has applied revision ", revision, " yet");
  return { type: "held", epoch, revision };
}

/** Makes this worker able to publish. Yields. @returns false: it does not come to decide by what is published */
function becomePublisher(): boolean {
  if (isPublishing()) return true;
  const giveUpAtSeconds = stopwatchSeconds() + catchUpSeconds;
  while (!inSlices(0, startPublishing)) {
    if (stopwatchSeconds() > giveUpAtSeconds) return false;
    catchUp();
    ngx.sleep(catchUpPollSeconds);
  }
  return true;
}

function resync(): GatewayMessage {
  const { epoch, revision } = currentState().position;
  return { type: "resync", epoch, revision };
}

/** @returns what was published, or the answer */
function publishRead(settings: Settings, pieces: readonly string[], pause: Pause): Published | GatewayMessage {
  const readOn = publishedVersion();
  // Another worker may have taken over since it was asked.
  if (!isPublishing() || ownVersion() !== readOn) return resync();
  const state = currentState();
  const serving = state.position;
  const { frame, misfit, problems } = readFrame((place) => pieces[place], json, heldEntries(), pause);
  if (misfit) return resync();
  if (frame === undefined) return refuse(pieces, problems);
  const { change, set, gone, policyCount } = frame;
  const { position } = change;
  const { epoch, revision } = position;
  if (serving.epoch === epoch && serving.revision > revision) {
    return refuse(pieces, [{ path: "revision", expected: `${serving.revision} or later`, got: `${revision}` }]);
  }
  const findings = noFindings();
  const prepared = prepareChange(state, change, findings, pause);
  if (findings.problems.length > 0) return refuse(pieces, findings.problems);
  if (policyCount !== undefined && prepared.policyCount !== policyCount) return resync();
  const allGone = allNamesGone(gone, prepared);
  const [version, failure] = publish(prepared, readOn, set, allGone, pause);
  if (version === undefined) {
    if (failure === changedMeanwhile) return resync();
    const expected = "policies that fit the shared dict sluice_state: make it larger in nginx.conf";
    return refuse(pieces, [{ path: frame.type, expected, got: `${bytesOf(pieces)} bytes: ${failure}` }]);
  }
  storeChange(settings, serving, set, allGone, pause);
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
