// What the URL of a new policy says.

import { type Starter, starters } from "./editor/starters.ts";

export interface NewPolicySearch {
  readonly app?: string;
  readonly from?: Starter;
}

export function readNewPolicySearch({ app, from }: Record<string, unknown>): NewPolicySearch {
  const starter = starters.find((one) => one === from);
  return {
    ...(typeof app === "string" && app !== "" ? { app } : {}),
    ...(starter === undefined ? {} : { from: starter }),
  };
}
