// What the URL of the consumers' page says: whose are shown, and which of them.

export interface ConsumersSearch {
  readonly app?: string;
  /** How their ids begin. */
  readonly prefix?: string;
  readonly plan?: string;
}

export function readConsumersSearch({ app, prefix, plan }: Record<string, unknown>): ConsumersSearch {
  return {
    ...(typeof app === "string" && app !== "" ? { app } : {}),
    ...(typeof prefix === "string" && prefix !== "" ? { prefix } : {}),
    ...(typeof plan === "string" && plan !== "" ? { plan } : {}),
  };
}
