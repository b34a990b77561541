// What the worker that receives changes does while no change waits: it removes bans and tokens that are over, deletes what no worker
// needs any more, and writes the log on disk anew when it has grown long.

import { newChange, prepareChange } from "../../../limiter/src/state/change.ts";
import { noFindings } from "../../../limiter/src/document/problems.ts";
import { nameOfBan, nameOfCaller } from "../../../limiter/src/state/entries.ts";
import type { EntryText } from "../../../limiter/src/protocol/read-frame.ts";
import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { besideRequests } from "../runtime/slices.ts";
import type { Settings } from "../settings.ts";
import { currentState } from "../snapshot/current.ts";
import { needsRewriting, rewriteLog } from "../snapshot/disk.ts";
import { deleteReplaced, heldEntries, isPublishing, publish } from "../snapshot/publication.ts";

const sweepEverySeconds = 60;
/** The control plane's clock may be behind this machine's. */
const overForSeconds = 60;

let sweptAtSeconds = 0;

/** Called in each turn of the worker that receives changes. Yields. @param isWaiting returns whether a change waits */
export function doUpkeep(settings: Settings, isWaiting: (this: void) => boolean): void {
  if (!isPublishing()) return;
  deleteReplaced();
  const { position } = currentState();
  const rewriting = needsRewriting(position);
  if (rewriting !== "no" && (rewriting === "now" || !isWaiting())) {
    besideRequests((pause) => {
      const goesOn = () => (rewriting === "now" || !isWaiting()) && !ngx.worker.exiting();
      rewriteLog(settings.gatewayDir, entryByEntry(), position, goesOn, pause);
    });
  }
  if (ngx.now() - sweptAtSeconds < sweepEverySeconds || isWaiting()) return;
  sweptAtSeconds = ngx.now();
  besideRequests(removeWhatIsOver);
}

function entryByEntry(): (this: void) => EntryText | undefined {
  const held = heldEntries();
  const names: string[] = [];
  held.eachName((name) => names.push(name));
  let place = 0;
  return () => {
    while (place < names.length) {
      const name = names[place] as string;
      place += 1;
      const text = held.textOf(name);
      if (text !== undefined) return { name, text };
    }
    return undefined;
  };
}

/** The control plane does not say when a ban or a token is over: everybody knows. */
function removeWhatIsOver(pause: Pause): void {
  const { bans, callers, position } = currentState();
  const overAt = ngx.now() - overForSeconds;
  const change = newChange(position);
  const gone: string[] = [];
  for (const id in bans.byId) {
    pause();
    if ((bans.byId[id]?.untilSeconds ?? overAt) >= overAt) continue;
    change.gone.push({ ban: id });
    gone.push(nameOfBan({ id }));
  }
  for (const sha256 in callers) {
    pause();
    if ((callers[sha256]?.expiresAtSeconds ?? math.huge) >= overAt) continue;
    change.gone.push({ caller: sha256 });
    gone.push(nameOfCaller({ sha256 }));
  }
  if (gone.length === 0) return;
  const prepared = prepareChange(currentState(), change, noFindings(), pause);
  // If that fails, it is tried again a minute later.
  publish(prepared, [], gone, pause);
}
