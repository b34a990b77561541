// The functions that nginx.conf calls: one for each phase.

import { noPause } from "../../limiter/src/basics/pause.ts";
import { access as decide } from "./access.ts";
import { keepSlots } from "./charging/held-slots.ts";
import { keepEndingHolds } from "./charging/hold-ends.ts";
import { openLine } from "./charging/line-of-workers.ts";
import { boundWaiting } from "./charging/waiting-requests.ts";
import { auth as answerAuth } from "./check-api/auth.ts";
import { check as answerCheck } from "./check-api/check.ts";
import { sendProblem } from "./check-api/check-errors.ts";
import { hold as answerHold, release as answerRelease, renew as answerRenewal } from "./check-api/hold.ts";
import { readOwnHold } from "./check-api/hold-text.ts";
import { boundChecks } from "./check-api/under-way.ts";
import { flushCounts } from "./metrics/counts.ts";
import { publishLuaMemory } from "./metrics/lua-memory.ts";
import { publishOverload } from "./metrics/overload-state.ts";
import { retireGonePolicies } from "./metrics/retiring.ts";
import { healthz as answerHealthz, type WorkerStart } from "./private/healthz.ts";
import { metrics as answerMetrics } from "./private/metrics.ts";
import { recallConsumers } from "./push/consumers.ts";
import { keepPushSocket } from "./push/push-socket.ts";
import { publishOpenBreakers } from "./redis/breaker.ts";
import { limitConnectionAge } from "./redis/connection-age.ts";
import { contactRedisAtStart } from "./redis/first-contact.ts";
import { openRedis } from "./redis/redis-settings.ts";
import { forgetDecided } from "./request/decided-before.ts";
import { endRequest, watchRequests } from "./request/request-state.ts";
import { abstain, isAnyEnough } from "./runtime/abstention.ts";
import { keepTasksRunning } from "./runtime/background.ts";
import { reportCodeCacheOff } from "./runtime/code-cache.ts";
import { tuneCollector } from "./runtime/collector.ts";
import { countDefect, noteDefect } from "./runtime/defects.ts";
import { neverCompile, suitDecisions, type TraceBorder, traceBorder } from "./runtime/jit.ts";
import { isWorker } from "./runtime/lua-modules.ts";
import { reportMissingInitWorker } from "./runtime/missing-parts.ts";
import { stateDict } from "./runtime/shared-memory.ts";
import { widenStringTable } from "./runtime/string-table.ts";
import { readSettings, reportMissing, reportUnknown, type Settings } from "./settings.ts";
import { noteChanged } from "./snapshot/current.ts";
import { readNewestWhole } from "./snapshot/disk.ts";
import { followPublications } from "./snapshot/distribution.ts";
import { recallLiveGateways } from "./snapshot/live-gateways.ts";
import { lookAfterOwnDirectory } from "./snapshot/own-directory.ts";
import { publish, startPublishing, stopPublishing } from "./snapshot/publication.ts";
import { noteGeneration, publishedVersion } from "./snapshot/shared-entries.ts";
import { openLeases } from "./stores/lease/leases.ts";
import { forgetLeases } from "./stores/lease/watch.ts";
import { keepFreeingExpired } from "./stores/node/expired-counters.ts";
import { openNodeStore } from "./stores/node/node-counters.ts";
import { keepRefusalsTrue } from "./stores/redis/refusal-cache.ts";

export { bodyTooLarge } from "./check-api/post.ts";
export { headers } from "./respond/service-headers.ts";

// Read while nginx reads its configuration: an invalid setting fails `nginx -t`, not the first request.
const settings = readSettings();
openRedis(settings.redis);
let generation = 0;
/** This Lua state serves a single request, in a location without a code cache: it has no policies and never will. */
let endsWithRequest = false;
let workerStart: WorkerStart = "missing";
let decideBy = decideWithoutInitWorker;

/** Decides the current request. */
type Phase = TraceBorder<Settings>;
const inAccess: Phase = traceBorder(decideWithoutSay);
const inRewrite: Phase = traceBorder(decide);

/** What an operator may say in `sluice.init({ tuneLua = true })`. */
interface InitOptions {
  /** Whether Sluice may set LuaJIT's compiler and collector as suits it, for all Lua code of this nginx. Absent: it may not. */
  readonly tuneLua?: boolean;
}

/**
 * For init_by_lua: publishes the policies that were in force when nginx last ran, and workers start with its compiled form. After a
 * reload, shared memory still has them.
 */
export function init(options: InitOptions = {}): void {
  endsWithRequest = isWorker();
  if (endsWithRequest) {
    decideBy = decideNothing;
    return;
  }
  if (wantsTunedLua(options)) {
    suitDecisions();
    tuneCollector();
  }
  reportUnknown(settings);
  generation = stateDict.incr("generation", 1, 0)[0] ?? 1;
  noteGeneration(generation);
  recallLiveGateways(settings.gatewayDir);
  recallConsumers(settings.gatewayDir);
  if (publishedVersion() > 0) return;
  const stored = readNewestWhole(settings.gatewayDir);
  if (stored === undefined) return;
  startPublishing(noPause);
  const [version, failure] = publish(stored.prepared, publishedVersion(), stored.entries, [], noPause);
  if (version === undefined)
    ngx.log(ngx.ERR, "sluice: what is on disk does not fit the shared dict sluice_state: ", failure);
  stopPublishing();
  widenStringTable();
}

function wantsTunedLua(options: InitOptions): boolean {
  const expected = "sluice: sluice.init: expected nothing or { tuneLua = true }, got ";
  if (type(options) !== "table") error(`${expected}${options}`, 0);
  for (const name in options) {
    if (name !== "tuneLua" || type(options[name]) !== "boolean") {
      error(`${expected}${name} = ${options[name as keyof InitOptions]}`, 0);
    }
  }
  return options.tuneLua === true;
}

/** For init_worker_by_lua. */
export function initWorker(): void {
  decideBy = decideGuarded;
  const [begun, failure] = pcall(beginWorker);
  workerStart = begun ? "begun" : "failed";
  if (!begun) noteDefect("init-worker", "a worker begins without some of its tasks, because Sluice failed", failure);
}

function beginWorker(): void {
  keepTasksRunning();
  if (ngx.worker.id() === 0) reportMissing(settings);
  openLeases(settings.gatewayId);
  openNodeStore(ngx.worker.count(), generation);
  openLine(ngx.worker.count(), ngx.worker.id() ?? 0);
  noteChanged();
  followPublications();
  widenStringTable();
  flushCounts();
  retireGonePolicies();
  publishLuaMemory();
  publishOverload(false);
  publishOpenBreakers();
  keepFreeingExpired();
  keepSlots();
  keepEndingHolds(readOwnHold);
  watchRequests();
  boundWaiting(settings.maxWaiting);
  boundChecks(settings.maxChecks);
  if (settings.redis !== undefined) {
    keepRefusalsTrue(settings.redis, forgetLeases);
    contactRedisAtStart(settings.redis);
    limitConnectionAge(settings.redis);
  }
  if (ngx.worker.id() === 0) lookAfterOwnDirectory(settings);
  keepPushSocket(settings);
}

/** For access_by_lua: decides the request before it goes upstream. Whether it may come in is for others to say. */
export function access(): void {
  const [decided, failure] = pcall(decideBy, inAccess);
  if (!decided) passUndecided(failure);
}

/**
 * For rewrite_by_lua: decides the request before nginx asks who may come in, as nginx's own limits do. The access phase leaves out what a
 * module of `satisfy any` has let in. nginx runs the rewrite phase for subrequests too, which are no requests of the client.
 */
export function rewrite(): void {
  if (ngx.is_subrequest) return;
  const [decided, failure] = pcall(decideBy, inRewrite);
  if (!decided) passUndecided(failure);
}

/** A defect of Sluice must not become an error for the client: the request passes, and the log has the reason. */
function passUndecided(failure: unknown): void {
  noteDefect("access", "a request passed without a decision, because Sluice failed", failure);
}

function decideNothing(phase: Phase): void {
  reportCodeCacheOff();
  countDefect("access");
  if (phase === inAccess && isAnyEnough()) abstain();
}

function decideWithoutInitWorker(phase: Phase): void {
  reportMissingInitWorker();
  decideGuarded(phase);
}

function decideGuarded(phase: Phase): void {
  phase.get(settings);
}

function decideWithoutSay(settings: Settings): undefined {
  if (!isAnyEnough()) return decide(settings);
  const [decided, failure] = pcall(decide, settings);
  abstain();
  if (!decided) error(failure, 0);
}

neverCompile(access);
neverCompile(rewrite);
neverCompile(decideGuarded);

/** For log_by_lua. */
export function log(): void {
  forgetDecided();
  endRequest();
}

/** For content_by_lua of GET /sluice/healthz. */
export function healthz(): void {
  answerPrivately(() => answerHealthz(settings, endsWithRequest ? "ends" : workerStart));
}

/** For content_by_lua of GET /sluice/metrics. */
export function metrics(): void {
  answerPrivately(answerMetrics);
}

function answerPrivately(respond: (this: void) => void): void {
  const [answered, failure] = pcall(respond);
  if (answered) return;
  noteDefect("private", "the health or the metrics were not shown, because Sluice failed", failure);
  ngx.exit(500);
}

const answers: Readonly<Record<string, (this: void, settings: Settings) => void>> = {
  "/sluice/v1/check": answerCheck,
  "/sluice/v1/auth": answerAuth,
  "/sluice/v1/hold": answerHold,
  "/sluice/v1/renew": answerRenewal,
  "/sluice/v1/release": answerRelease,
};

/** For content_by_lua of the location /sluice/v1/: all that the check API has. */
export function api(): void {
  const respond = answers[ngx.var["uri"] as string];
  if (respond === undefined) {
    ngx.exit(404);
    return;
  }
  answer(respond);
}

/** For content_by_lua of POST /sluice/v1/check. */
export function check(): void {
  answer(answerCheck);
}

/** For content_by_lua of GET /sluice/v1/auth. */
export function auth(): void {
  answer(answerAuth);
}

/** For content_by_lua of POST /sluice/v1/hold. */
export function hold(): void {
  answer(answerHold);
}

/** For content_by_lua of POST /sluice/v1/renew. */
export function renew(): void {
  answer(answerRenewal);
}

/** For content_by_lua of POST /sluice/v1/release. */
export function release(): void {
  answer(answerRelease);
}

/** A defect of Sluice is answered as an internal error, and the caller decides what that means. */
function answer(respond: (this: void, settings: Settings) => void): void {
  if (endsWithRequest) {
    reportCodeCacheOff();
    sendProblem({ code: "internal", detail: "The gateway is not configured to answer. Its error log says why." });
    return;
  }
  const [answered, failure] = pcall(answerGuarded, respond);
  if (answered) return;
  noteDefect("check-api", "a request of the check API was answered with 500, because Sluice failed", failure);
  sendProblem({ code: "internal", detail: "The gateway failed. Its error log says why." });
}

function answerGuarded(respond: (this: void, settings: Settings) => void): void {
  respond(settings);
}
neverCompile(answerGuarded);
