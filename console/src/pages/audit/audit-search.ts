// What the URL of the audit trail says: which entries are shown.

export const actions = [
  "create-policy",
  "update-policy",
  "delete-policy",
  "put-policies",
  "delete-policies",
  "roll-back",
  "create-ban",
  "delete-ban",
  "create-template",
  "update-template",
  "delete-template",
  "create-networks",
  "update-networks",
  "delete-networks",
  "read-counter",
  "reset-counter",
  "top-up-counter",
  "put-consumer",
  "delete-consumer",
  "import-consumers",
  "create-token",
  "delete-token",
  "create-caller",
  "delete-caller",
  "create-member",
  "update-member",
  "delete-member",
  "create-app",
  "update-app",
  "delete-app",
  "sign-in",
  "sign-out",
  "end-session",
  "refuse-sign-in",
  "new-epoch",
  "begin-epoch",
] as const;
export type Action = (typeof actions)[number];

export const periods = ["1h", "1d", "7d", "30d"] as const;
export type Period = (typeof periods)[number];

export interface AuditSearch {
  /** Absent: all that one may see. */
  readonly app?: string;
  readonly who?: string;
  readonly action?: Action;
  /** A template, token, member or ban. */
  readonly subject?: string;
  /** How far back. Absent: all that is kept. */
  readonly since?: Period;
}

export function readAuditSearch({ app, who, action, subject, since }: Record<string, unknown>): AuditSearch {
  return {
    ...(typeof app === "string" && app !== "" ? { app } : {}),
    ...(typeof who === "string" && who !== "" ? { who } : {}),
    ...(actions.includes(action as Action) ? { action: action as Action } : {}),
    ...(typeof subject === "string" && subject !== "" ? { subject } : {}),
    ...(periods.includes(since as Period) ? { since: since as Period } : {}),
  };
}
