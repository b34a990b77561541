// What the URLs of a policy and of a new one say besides its name.

import { isName } from "@sluice/limiter/document/policy-shape.ts";
import { type Starter, starters } from "./editor/starters.ts";

export interface NewPolicySearch {
  readonly app?: string;
  readonly from?: Starter;
  /** The name of a supplied policy to begin with. */
  readonly template?: string;
}

export function readNewPolicySearch({ app, from, template }: Record<string, unknown>): NewPolicySearch {
  const starter = starters.find((one) => one === from);
  return {
    ...(typeof app === "string" && app !== "" ? { app } : {}),
    ...(starter === undefined ? {} : { from: starter }),
    ...(typeof template === "string" && isName(template) ? { template } : {}),
  };
}

export interface PolicySearch {
  /** The revision that the policy was just stored in: the page shows how far the gateways are with it. */
  readonly revision?: number;
}

export function readPolicySearch({ revision }: Record<string, unknown>): PolicySearch {
  return typeof revision === "number" && Number.isSafeInteger(revision) && revision > 0 ? { revision } : {};
}
