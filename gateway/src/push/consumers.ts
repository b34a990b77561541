// Messages with consumers: they are written to disk and come into force, and the control plane hears how far this gateway is. It is told
// too if what is on disk, or in memory, lacks something that it must send again.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { consumersBeginning } from "../../../limiter/src/protocol/consumer-lines.ts";
import type { ConsumersHead, GatewayMessage } from "../../../limiter/src/protocol/push-messages.ts";
import {
  appendConsumers,
  flushConsumers,
  isRetryDue,
  loggedPosition,
  needsRewriting,
  readConsumerLog,
  rewriteConsumerLog,
} from "../consumers/consumer-log.ts";
import {
  applyLines,
  consumersState,
  deleteLeftOver,
  heldConsumers,
  isPosition,
  loadLines,
  mostEpochBytes,
  openConsumers,
  stateAfter,
  stateBefore,
  writeState,
} from "../consumers/held.ts";
import {
  compareTotals,
  lackingOfApps,
  learnTotals,
  noteUnstored,
  publishUnstored,
  shouldDivideAnew,
  shouldForgetSome,
  unstoredCount,
} from "../consumers/shares.ts";
import { collectAll } from "../runtime/collector.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { consumersDict } from "../runtime/shared-memory.ts";
import { besideRequests } from "../runtime/slices.ts";
import type { Settings } from "../settings.ts";

/** Returns whether the message is one with consumers, by its first characters. */
export function beginsConsumers(pieces: readonly string[]): boolean {
  return string.find(pieces[0] ?? "", consumersBeginning, 1, true)[0] === 1;
}

/** Called at the start, before there are workers: a request must not find a consumer without its plan. What is on disk cannot make it fail. */
export function recallConsumers(directory: string): void {
  const [recalled, failure] = pcall(recall, directory);
  if (!recalled) ngx.log(ngx.ERR, "sluice: starts without the consumers on disk: ", `${failure}`);
}

function recall(directory: string): void {
  if (openConsumers() || consumersDict === undefined) return;
  const state = consumersState();
  const found = readConsumerLog(directory, (lines) => loadLines(lines, state.beginning));
  // The texts of a million consumers are no use to anybody after this.
  collectAll();
  if (found === undefined) return;
  const { epoch, position, lacks } = found;
  // The control plane sends everything to a gateway that does not say where it is. A log that was written anew has its position at the end: one
  // that has lost it may have consumers that were deleted since, and after position 0, the control plane sends no deletions.
  if (lacks === 0 && position > 0) writeState({ ...state, epoch, position });
  else noteUnstored(lacks);
  const { count = 0, unstored = 0 } = heldConsumers() ?? {};
  ngx.log(ngx.NOTICE, "sluice: starts with ", string.format("%.0f", count), " consumers");
  if (unstored > 0) reportFull(unstored);
}

/** Takes one message. Yields. @returns the answer; undefined: there is none */
export function takeConsumers({ gatewayDir }: Settings, pieces: readonly string[]): GatewayMessage | undefined {
  const text = pieces.join("");
  const [lineEnd] = string.find(text, "\n", 1, true);
  const [head] = cjson.decode<ConsumersHead>(string.sub(text, 1, lineEnd ?? -1));
  if (consumersDict === undefined || lineEnd === undefined || !isHead(head)) {
    ngx.log(
      ngx.ERR,
      "sluice: push: expected consumers that this gateway understands, got ",
      `${text.length} bytes of something else`,
    );
    return undefined;
  }
  const { epoch } = consumersState();
  const before = stateBefore(head);
  if (before === undefined) return answer();
  const unstoredBefore = unstoredCount();
  // First, so that a log that is being written anew misses nothing.
  if (head.fresh === true || head.to > head.from || head.epoch !== epoch)
    appendConsumers(gatewayDir, head, string.sub(text, lineEnd + 1));
  writeState(before);
  let unread = 0;
  besideRequests((pause) => {
    unread = applyLines(text, lineEnd + 1, before.beginning, pause);
  });
  const after = stateAfter(before, head);
  writeState(after);
  learnTotals(head);
  // Entries of an earlier beginning would count, too.
  if (!head.more && after.phase === "complete") compareTotals(head);
  if (unread > 0) ngx.log(ngx.ERR, "sluice: push: expected consumers, got ", unread, " lines that say nothing");
  const unstored = publishUnstored();
  if (unstored > 0 && unstoredBefore === 0) reportFull(unstored);
  return answer();
}

const mostNamed = 10;

function reportFull(unstored: number): void {
  const apps: string[] = [];
  const lacking = lackingOfApps() ?? {};
  for (const app in lacking) {
    if (apps.length < mostNamed) apps.push(`${app} (${string.format("%.0f", lacking[app])})`);
  }
  ngx.log(
    ngx.ERR,
    "sluice: lua_shared_dict sluice_consumers is full: ",
    string.format("%.0f", unstored),
    " consumers found no room, and have the default plan here. ",
    apps.length === 0 ? "" : `They belong to these apps: ${apps.join(", ")}. `,
    "Make the dict larger, and restart nginx",
  );
}

function isHead(head: unknown): head is ConsumersHead {
  if (typeof head !== "object") return false;
  const { epoch, from, to } = head as Record<string, unknown>;
  return typeof epoch === "string" && epoch.length <= mostEpochBytes && isPosition(from) && isPosition(to);
}

function answer(): GatewayMessage | undefined {
  const held = heldConsumers();
  return held === undefined ? undefined : { type: "consumers", ...held };
}

/** What was compared since the last answer. */
let news: GatewayMessage | undefined;

/** What the owner does while nothing else is to be done. Yields. @param goesOn returns false if something waits */
export function maintainConsumers({ gatewayDir }: Settings, goesOn: (this: void) => boolean): void {
  if (consumersDict === undefined) return;
  flushConsumers(gatewayDir);
  if (goesOn() && consumersState().phase === "cleaning") {
    besideRequests((pause) => deleteLeftOver(goesOn, pause));
    if (consumersState().phase === "complete") {
      compareTotals();
      publishUnstored();
      news = answer();
    }
  }
  const need = needsRewriting();
  if (need === "now" || (need === "idle" && goesOn())) {
    const goesOnWriting = need === "now" ? () => !ngx.worker.exiting() : goesOn;
    besideRequests((pause: Pause) => rewriteConsumerLog(gatewayDir, goesOnWriting, pause));
  }
}

/** Called in each turn of the owner. @returns what to ask the control plane for */
export function lackingConsumers(): GatewayMessage | undefined {
  const held = heldConsumers();
  if (held === undefined || consumersDict === undefined) return undefined;
  const nowhere = { type: "consumers", ...held, epoch: "", position: 0 } as const;
  if (isRetryDue()) {
    const { epoch, position } = loggedPosition() ?? nowhere;
    if (epoch === "" || position === 0 || position > held.position) return nowhere;
    if (position < held.position) {
      writeState({ ...consumersState(), epoch, position });
      return { type: "consumers", ...held, epoch, position };
    }
  }
  const answered = news;
  news = undefined;
  // Without an epoch, it has asked for everything already.
  if (held.epoch === "" || consumersState().phase === "filling") return answered;
  if (shouldForgetSome()) {
    ngx.log(ngx.WARN, "sluice: push: has more consumers than there are, and gets all of them again");
    return nowhere;
  }
  return shouldDivideAnew() ? nowhere : answered;
}
