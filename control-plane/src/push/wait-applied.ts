// "Answer when every gateway has it": how a request waits for the fleet.

import type { Position } from "../storage/epoch.ts";
import type { Applied, Fleet } from "./fleet.ts";

/**
 * Settles as soon as every connected gateway has applied or refused the revision, when the time is over, when the
 * signal says that nobody listens any more, or when the control plane stops; with the count at that moment. Gateways
 * that come or go meanwhile count as they are then.
 * @param newest the newest position now: the history may become another one while we wait, and keeps its numbers
 */
export function waitApplied(
  fleet: Fleet,
  newest: () => Position,
  revision: number,
  waitMs: number,
  signal: AbortSignal,
): Promise<Applied> {
  return new Promise((resolve) => {
    const count = () => fleet.applied(newest(), revision);
    const finish = () => {
      clearTimeout(timer);
      fleet.off("progress", check);
      fleet.off("closing", finish);
      signal.removeEventListener("abort", finish);
      resolve(count());
    };
    const check = () => {
      const { gateways, acked, refused } = count();
      if (acked + refused >= gateways) finish();
    };
    const timer = setTimeout(finish, waitMs);
    fleet.on("progress", check);
    fleet.on("closing", finish);
    signal.addEventListener("abort", finish);
    if (signal.aborted) finish();
    else check();
  });
}
