// What the history's URL says.

export interface HistorySearch {
  /** Only changes of this app. */
  readonly app?: string;
  /** Only changes of policies whose name has this in it. */
  readonly policy?: string;
}

export function readHistorySearch({ app, policy }: Record<string, unknown>): HistorySearch {
  return {
    ...(typeof app === "string" && app !== "" ? { app } : {}),
    ...(typeof policy === "string" && policy !== "" ? { policy } : {}),
  };
}

export function isShown(
  revision: { readonly app?: string; readonly policy?: string },
  { app, policy }: HistorySearch,
): boolean {
  if (app !== undefined && revision.app !== app) return false;
  return policy === undefined || (revision.policy ?? "").includes(policy);
}
