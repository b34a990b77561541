// What nginx.conf calls: one function a phase.

import { noPause } from "../../limiter/src/policy/pause.ts";
import { access as decide } from "./access.ts";
import { sendProblem } from "./ask/ask-errors.ts";
import { auth as answerAuth } from "./ask/auth.ts";
import { check as answerCheck } from "./ask/check.ts";
import { flushCounts } from "./metrics/counts.ts";
import { tellLuaMemory } from "./metrics/lua-memory.ts";
import { retireGonePolicies } from "./metrics/retiring.ts";
import { recallLiveGateways } from "./push/fleet.ts";
import { keepPushSocket } from "./push/push-socket.ts";
import { askRedisAtStart } from "./redis/first-contact.ts";
import { keepErrandsGoing } from "./runtime/background.ts";
import { neverCompile, suitDecisions, traceBorder } from "./runtime/jit.ts";
import { stateDict } from "./runtime/shared-memory.ts";
import { warnSparingly } from "./runtime/sparing-log.ts";
import { widenStringTable } from "./runtime/string-table.ts";
import { readSettings, type Settings } from "./settings.ts";
import { currentSnapshot } from "./snapshot/current.ts";
import { readStored } from "./snapshot/disk.ts";
import { followPublications, hasPublished, publish } from "./snapshot/distribution.ts";
import { readPieces } from "./snapshot/text.ts";
import { keepSlots } from "./stores/held-slots.ts";
import { forgetLeases, openLeases } from "./stores/leases.ts";
import { openNodeStore } from "./stores/node-store.ts";
import { keepRefusalsTrue } from "./stores/refusals.ts";

export { bodyTooLarge } from "./ask/check.ts";
export { log } from "./log.ts";
export { healthz } from "./private/healthz.ts";
export { metrics } from "./private/metrics.ts";

suitDecisions();

// Read as nginx reads its configuration: a bad setting stops `nginx -t`, not the first request.
const settings = readSettings();
const [generation] = stateDict.incr("generation", 1, 0);

/**
 * init_by_lua: lays out the snapshot that was good when nginx last ran. Workers begin with what was made of it here. After
 * a reload, shared memory still has one.
 */
export function init(): void {
  recallLiveGateways(settings.gatewayDir);
  if (hasPublished()) return;
  const pieces = readStored(settings.gatewayDir);
  if (pieces === undefined) return;
  const { snapshot, problems } = readPieces((place) => pieces[place], currentSnapshot(), noPause);
  if (snapshot === undefined) {
    const damaged = " is damaged and left alone: ";
    ngx.log(ngx.ERR, "sluice: the snapshot in ", settings.gatewayDir, damaged, problems[0]?.path);
    return;
  }
  publish(pieces, snapshot, noPause);
  widenStringTable();
}

/** init_worker_by_lua. */
export function initWorker(): void {
  keepErrandsGoing();
  openLeases(settings.gatewayId);
  openNodeStore(ngx.worker.count(), generation as number);
  followPublications();
  widenStringTable();
  flushCounts();
  retireGonePolicies();
  tellLuaMemory();
  keepSlots();
  if (settings.redis !== undefined) {
    keepRefusalsTrue(settings.redis, forgetLeases);
    askRedisAtStart(settings.redis);
  }
  keepPushSocket(settings);
}

/**
 * access_by_lua: decides the request, before it goes upstream.
 *
 * A defect of ours must not become the client's error: the request passes, and the log says why.
 */
export function access(): void {
  const [decided, failure] = pcall(decideGuarded);
  if (!decided) warnSparingly("a request passed undecided", `${failure}`);
}

function decideGuarded(): void {
  decision.get(settings);
}

const decision = traceBorder(decide);
neverCompile(access);
neverCompile(decideGuarded);

/** content_by_lua of POST /sluice/v1/check. */
export function check(): void {
  answer(answerCheck);
}

/** content_by_lua of GET /sluice/v1/auth. */
export function auth(): void {
  answer(answerAuth);
}

/** A defect of ours is told as one: whoever asks decides what that means. */
function answer(respond: (this: void, settings: Settings) => void): void {
  const [answered, failure] = pcall(answerGuarded, respond);
  if (answered) return;
  warnSparingly("a question was not answered", `${failure}`);
  sendProblem({ code: "internal", detail: "The gateway failed. Its error log says why." });
}

function answerGuarded(respond: (this: void, settings: Settings) => void): void {
  respond(settings);
}
neverCompile(answerGuarded);
