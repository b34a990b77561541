// Policies for tests: the smallest valid document, with the fields that a test is about.

import type { Policy } from "../../limiter/src/document/policy.ts";
import { validatePolicy } from "../../limiter/src/document/validate.ts";

export const smallestLimit = { algorithm: "token-bucket", quota: 10, window: "1s" };

export const smallestDocument = { name: "books", limits: [smallestLimit] };

/** @throws if the document is not a policy */
export function policyFrom(document: unknown): Policy {
  const { policy, problems } = validatePolicy(document);
  if (policy === undefined) throw new Error(`no policy: ${JSON.stringify(problems)}`);
  return policy;
}

export function policyNamed(name: string, fields: Record<string, unknown> = {}): Policy {
  return policyFrom({ ...smallestDocument, name, ...fields });
}
