// A consumer as people write it: in a body of its own, or as a line of many.

import { limitsShape, nameShape } from "@sluice/limiter/document/policy-shape.ts";
import { addProblem, type Findings } from "@sluice/limiter/document/problems.ts";
import type { Field, Shape } from "@sluice/limiter/document/shape.ts";
import { checkShape, describeValue, validatePolicy } from "@sluice/limiter/document/validate.ts";
import { mostIdBytes } from "@sluice/limiter/protocol/consumer-lines.ts";
import type { Terms } from "../storage/consumer-changes.ts";
import type { NamedTerms } from "../storage/consumers.ts";
import { hasBlanksAround } from "./blanks.ts";

const mostPolicies = 32;
/** A million consumers with so much each need a gigabyte on each gateway. */
const mostOverridesBytes = 4_096;

/** Control characters separate consumers on their way to gateways; halves of surrogate pairs are no text. */
const unprintable = /[\p{Cc}\p{Cs}]/u;

export const idRule = `1 to ${mostIdBytes} bytes without control characters and without blanks around it, and neither "." nor ".."`;

const idShape: Shape = {
  kind: "text",
  expected: idRule,
  maxBytes: mostIdBytes,
  accepts: isConsumerId,
};

const fields = {
  plan: {
    shape: nameShape,
    description:
      "The plan whose limits hold for the consumer's requests. In a policy that has no plan of this name, the default plan's do.",
    required: true,
  },
  overrides: {
    shape: { kind: "map", names: nameShape, of: limitsShape, minItems: 0, maxItems: mostPolicies },
    description:
      "Limits of the consumer's own, by the name of the policy. As in a policy's overrides, they hold instead of the limits of the same names.",
  },
} as const satisfies Record<string, Field>;

export const consumerShape = { kind: "record", fields } as const satisfies Shape;

export const namedConsumerShape = {
  kind: "record",
  fields: {
    id: { shape: idShape, description: "What requests have as the first value of a policy's key.", required: true },
    ...fields,
  },
} as const satisfies Shape;

/** Gateways read headers without the blanks around them, so such an id would match no request. A URL cannot end in "." or "..". */
export function isConsumerId(text: string): boolean {
  const isReachable = !hasBlanksAround(text) && text !== "." && text !== "..";
  return text !== "" && isReachable && Buffer.byteLength(text) <= mostIdBytes && !unprintable.test(text);
}

interface ConsumerBody {
  readonly plan: string;
  readonly overrides?: Readonly<Record<string, readonly unknown[]>>;
}

/** @returns the terms, if nothing is wrong */
export function readConsumer(body: unknown, findings: Findings): Terms | undefined {
  const before = findings.problems.length;
  checkShape(consumerShape, body, "", findings);
  if (findings.problems.length > before) return undefined;
  return termsFrom(body as ConsumerBody, findings);
}

/** @returns the consumer, if nothing is wrong */
export function readNamedConsumer(body: unknown, findings: Findings): NamedTerms | undefined {
  const before = findings.problems.length;
  checkShape(namedConsumerShape, body, "", findings);
  if (findings.problems.length > before) return undefined;
  const terms = termsFrom(body as ConsumerBody, findings);
  return terms === undefined ? undefined : { id: (body as NamedTerms).id, ...terms };
}

function termsFrom({ plan, overrides = {} }: ConsumerBody, findings: Findings): Terms | undefined {
  const names = Object.keys(overrides).sort();
  if (names.length === 0) return { plan, overrides: null };
  const before = findings.problems.length;
  for (const name of names) {
    // A policy that allows all that any policy allows: what fits none is wrong.
    const policy = { name, key: [], scope: "cluster", limits: overrides[name] };
    for (const { path, expected, got } of validatePolicy(policy).problems) {
      addProblem(findings, { path: `overrides.${name}${path.replace(/^limits/, "")}`, expected, got });
    }
  }
  const text = JSON.stringify(Object.fromEntries(names.map((name) => [name, overrides[name]])));
  const bytes = Buffer.byteLength(text);
  if (bytes > mostOverridesBytes) {
    const expected = `at most ${mostOverridesBytes} bytes of limits`;
    addProblem(findings, { path: "overrides", expected, got: `${bytes} bytes` });
  }
  return findings.problems.length > before ? undefined : { plan, overrides: text };
}

export function describedId(id: string): string {
  return describeValue(id);
}
