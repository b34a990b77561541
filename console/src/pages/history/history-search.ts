// What the history's URL says.

import { type Period, periods } from "../../parts/traffic/past-periods.ts";

export interface HistorySearch {
  /** Only changes of this app. */
  readonly app?: string;
  /** Only changes of policies whose name has this in it. */
  readonly policy?: string;
  /** How far back the chart goes. */
  readonly period?: Period;
}

export function readHistorySearch({ app, policy, period }: Record<string, unknown>): HistorySearch {
  return {
    ...(typeof app === "string" && app !== "" ? { app } : {}),
    ...(typeof policy === "string" && policy !== "" ? { policy } : {}),
    ...(periods.includes(period as Period) ? { period: period as Period } : {}),
  };
}

export function isShown(
  revision: { readonly app?: string; readonly policy?: string },
  { app, policy }: HistorySearch,
): boolean {
  if (app !== undefined && revision.app !== app) return false;
  return policy === undefined || (revision.policy ?? "").includes(policy);
}
