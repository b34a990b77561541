// What nginx.conf calls: one function a phase.

import { access as decide } from "./access.ts";
import { flushCounts } from "./metrics/counts.ts";
import { keepPushSocket } from "./push/push-socket.ts";
import { allowLongTraces, neverCompile } from "./runtime/jit.ts";
import { stateDict } from "./runtime/shared-memory.ts";
import { warnSparingly } from "./runtime/sparing-log.ts";
import { readSettings } from "./settings.ts";
import { readStored } from "./snapshot/disk.ts";
import { followPublications, hasPublished, publish, readSnapshotText } from "./snapshot/distribution.ts";
import { keepSlots } from "./stores/held-slots.ts";
import { openNodeStore } from "./stores/node-store.ts";

export { log } from "./log.ts";
export { healthz } from "./private/healthz.ts";
export { metrics } from "./private/metrics.ts";

allowLongTraces();

// Read as nginx reads its configuration: a bad setting stops `nginx -t`, not the first request.
const settings = readSettings();
const [generation] = stateDict.incr("generation", 1, 0);

/** init_by_lua: lays out the snapshot that was good when nginx last ran. After a reload, shared memory still has it. */
export function init(): void {
  if (hasPublished()) return;
  const text = readStored(settings.gatewayDir);
  if (text === undefined) return;
  const { snapshot, problems } = readSnapshotText(text);
  if (snapshot !== undefined) publish(text);
  else
    ngx.log(
      ngx.ERR,
      "sluice: the snapshot in ",
      settings.gatewayDir,
      " is damaged and left alone: ",
      problems[0]?.path,
    );
}

/** init_worker_by_lua. */
export function initWorker(): void {
  openNodeStore(ngx.worker.count(), generation as number);
  followPublications();
  flushCounts();
  keepSlots();
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
  decide(settings);
}

// LuaJIT gives up a trace that begins within a pcall and returns through it, and in the end all that leads there: so the
// decision, whose traces return to this frame, is what begins them.
neverCompile(access);
neverCompile(decideGuarded);
