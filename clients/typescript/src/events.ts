// The metrics hook gets one of these events for each decision or error of a call. Nothing that the hook does changes a decision.

import type { Source } from "./decision.ts";

export type CallName = "check" | "checkAll" | "peek" | "report" | "acquire" | "hold";

export interface SluiceEvent {
  readonly call: CallName;
  /** As the caller named it; of `checkAll`, the first. */
  readonly policy: string;
  readonly outcome: "allowed" | "refused" | "error";
  /** Absent for an error. */
  readonly source?: Source;
  /** From the call to its decision. */
  readonly seconds: number;
  /** Checks in its request; 0: there was none. */
  readonly batch: number;
}

/** Calls the hook, and survives it: also one that is async by mistake, whose rejection would end the process. */
export function tell(hook: ((event: SluiceEvent) => unknown) | undefined, event: SluiceEvent): void {
  if (hook === undefined) return;
  try {
    const returned = hook(event);
    if (returned instanceof Promise) returned.catch(() => {});
  } catch {
    // The decision stands, whatever becomes of its metrics.
  }
}
