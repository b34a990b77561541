// An entry of the history: what was changed, by documents before and after.

export const actions = [
  "create-app",
  "update-app",
  "delete-app",
  "create-policy",
  "update-policy",
  "delete-policy",
  "put-policies",
  "delete-policies",
  "create-ban",
  "delete-ban",
  "create-template",
  "update-template",
  "delete-template",
  "create-networks",
  "update-networks",
  "delete-networks",
  "create-caller",
  "delete-caller",
  "roll-back",
  "new-epoch",
  "begin-epoch",
] as const;
export type Action = (typeof actions)[number];

/** Actions whose entries have many documents each (many-documents.ts). */
export const actionsOfMany: readonly Action[] = ["put-policies", "delete-policies", "roll-back"];

export function isOfMany(action: string): boolean {
  return actionsOfMany.some((one) => one === action);
}

export interface Entry {
  readonly action: Action;
  /** Absent if the change belongs to no app. */
  readonly app?: string;
  readonly policy?: string;
  /** The name of the template, list of networks or token that changed, or the id of the ban. */
  readonly subject?: string;
  /** Documents as JSON text. */
  readonly before?: string;
  readonly after?: string;
}
