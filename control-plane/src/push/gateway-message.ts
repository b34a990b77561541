// Reads messages of gateways: a gateway has a credential, but may have another version or be broken. A message that is not
// understood is refused as a whole, so that no operator sees a half-read report as fact.

import { cutToBytes } from "@sluice/limiter/basics/byte-length.ts";
import { most } from "@sluice/limiter/document/policy-shape.ts";
import type { Problem } from "@sluice/limiter/document/problems.ts";
import type { KeyActivity, WorkerActivity } from "@sluice/limiter/protocol/activity.ts";
import type { GatewayMessage, HeldConsumers } from "@sluice/limiter/protocol/push-messages.ts";
import { Ajv } from "ajv";

export const maxMessageBytes = 1024 * 1024;
/**
 * As many as a gateway sends, including the one that counts the rest. They are kept as long as the gateway is remembered.
 */
const keptProblems = 21;
const maxProblemBytes = 500;
/** Of the problems of a refusal, and of the apps whose consumers are lacking, as JSON: all are kept for each gateway, and told to other control planes. */
const mostProblemsBytes = 8_192;
const mostLackingBytes = 4_096;
/** Likewise of its counters, and of the places of its errors: it has a dozen of each. */
const mostCountsBytes = 2_048;
/** More than a gateway reports at once: workers, policies of a worker, and lists of keys. */
const mostActive = 1_000;
/** Of all workers: a gateway sends one report of 150, after what takes 16 KB. */
const mostPoliciesReported = 500;
const mostKeysReported = 1_000;
/**
 * The most lists, objects and commas of a message, of which each makes a value. Reports of traffic have the most: a gateway sends 9,000 at
 * most, and may refuse a snapshot for thousands of problems. A megabyte has room for hundreds of thousands, which would be read for a tenth of a second.
 */
const mostMarks = 24_000;
/** More than a key may have. */
const mostKeyParts = 16;
const mostPartCharacters = 300;
/** Key values are stored in so many bytes at most (limiter/src/compiled/counter-key.ts). */
const mostKeyCharacters = 200;

/** Nobody sees these, and some turn what is around them. */
const invisible = "\\u0000-\\u001f\\u007f-\\u009f\\p{Cf}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}";
/** A short text without such characters, because it goes into logs, pages and metrics. */
const text = { type: "string", maxLength: 128, pattern: `^[^${invisible}]*$` };
/** To a database, an id with a space at its end, or with half a surrogate pair, may be equal to another gateway's. */
const gatewayId = {
  ...text,
  pattern: `^[^${invisible}\\p{Cs}]*[^ ${invisible}\\p{Cs}]$`,
};
const count = { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER };
const problem = recordSchema({ path: { type: "string" }, expected: { type: "string" }, got: { type: "string" } });
/** There are far fewer results of decisions. */
const counters = {
  anyOf: [
    { type: "array", maxItems: 0 },
    { type: "object", maxProperties: 32, propertyNames: text, additionalProperties: { type: "number" } },
  ],
};
/** The last second of the year 9999: no date has a later one. */
const lastSecond = 253_402_300_799;
const time = { type: "number", minimum: 0, maximum: 1_000 * lastSecond };
const name = { type: "string", maxLength: 63, pattern: "^[a-z0-9][a-z0-9-]*$" };
const reading = recordSchema({ name, capacity: count, remaining: count, resetAfterUs: count });
const policyActivity = recordSchema({
  app: name,
  policy: name,
  fromMs: time,
  allowed: count,
  refused: count,
  shadowRefused: count,
  degraded: count,
  delayed: count,
});
const keyActivity = recordSchema({
  app: name,
  policy: name,
  key: listSchema({ type: "string", maxLength: mostPartCharacters }, mostKeyParts),
  result: { enum: ["admitted", "refused"] },
  sinceMs: time,
  keys: listSchema({ type: "string", maxLength: mostKeyCharacters }, mostKeysReported),
  counts: listSchema(count, mostKeysReported),
  error: count,
  unlisted: count,
});
const workerActivity = recordSchema({
  toMs: time,
  policies: listSchema(policyActivity, mostActive),
  keys: listSchema(keyActivity, mostActive),
});
const redis = recordSchema(
  { state: { enum: ["ok", "failing", "unused"] }, sinceSeconds: { type: "integer", minimum: 0, maximum: lastSecond } },
  { id: text, strayWorkers: count, overloadedWorkers: count },
);
const errors = { type: "object", maxProperties: 32, propertyNames: text, additionalProperties: count };

/** A gateway sends no more. */
const warnings = listSchema({ ...text, maxLength: 200 }, 10);

const heldConsumers = { epoch: text, position: count, count, unstored: count };
/** Of which apps it lacks consumers. */
const lacking = { type: "object", maxProperties: mostActive, propertyNames: name, additionalProperties: count };

const messages: Record<GatewayMessage["type"], object> = {
  hello: messageSchema(
    { gateway: gatewayId, version: text, workers: count, epoch: text, revision: count },
    { proof: text, edition: text, protocol: count, consumers: recordSchema(heldConsumers, { lacking }) },
  ),
  applied: messageSchema({ epoch: text, revision: count }),
  held: messageSchema({ epoch: text, revision: count }),
  resync: messageSchema({ epoch: text, revision: count }),
  refused: messageSchema({ epoch: text, revision: count, problems: listSchema(problem) }),
  consumers: messageSchema(heldConsumers, { lacking }),
  status: messageSchema({ counters }, { redis, errors, warnings }),
  activity: messageSchema({ nowMs: time, workers: listSchema(workerActivity, mostActive) }),
  counter: messageSchema({ id: count }, { limits: listSchema(reading, most.limits) }),
};

/** A record removes what it does not know, so that a message has only known fields. */
const ajv = new Ajv({ removeAdditional: true });
const validators = new Map(Object.entries(messages).map(([type, schema]) => [type, ajv.compile(schema)]));

/** @returns the message with only its known fields, or undefined when the text is not a valid message */
export function readGatewayMessage(text: string): GatewayMessage | undefined {
  if (hasMoreMarks(text, mostMarks)) return undefined;
  const message = parsed(text) as GatewayMessage | undefined;
  // A Map, because the type may be the name of something that every object has.
  if (message === undefined || validators.get(message?.type)?.(message) !== true) return undefined;
  switch (message.type) {
    case "refused":
      return { ...message, problems: keptOf(message.problems) };
    case "hello":
      return message.consumers === undefined ? message : { ...message, consumers: withFewLacking(message.consumers) };
    case "consumers":
      return withFewLacking(message);
    case "status":
      return {
        ...message,
        counters: fewOf(message.counters),
        ...(message.errors === undefined ? {} : { errors: fewOf(message.errors) }),
        ...(message.warnings === undefined ? {} : { warnings: toList(message.warnings) }),
      };
    case "activity": {
      const workers = toList(message.workers).map(readWorkerActivity);
      const policies = workers.reduce((sum, { policies }) => sum + policies.length, 0);
      return policies > mostPoliciesReported ? undefined : { ...message, workers };
    }
    case "counter":
      return message.limits === undefined ? message : { ...message, limits: toList(message.limits) };
    default:
      return message;
  }
}

function keptOf(problems: Problem[]): Problem[] {
  return fitting(toList(problems).slice(0, keptProblems).map(shortenedProblem), mostProblemsBytes);
}

/** Without all names, it counts as one that may lack consumers of every app. */
function withFewLacking<Held extends HeldConsumers>(held: Held): Held {
  if (held.lacking === undefined) return held;
  return { ...held, lacking: Object.fromEntries(fitting(Object.entries(held.lacking), mostLackingBytes)) };
}

/** An empty list of Lua has none. */
function fewOf(counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(fitting(Object.entries(counts), mostCountsBytes));
}

/** Returns the first items that have room in so many bytes of JSON. */
function fitting<Item>(items: readonly Item[], mostBytes: number): Item[] {
  let bytes = 0;
  const end = items.findIndex((item) => {
    bytes += Buffer.byteLength(JSON.stringify(item));
    return bytes > mostBytes;
  });
  return end < 0 ? [...items] : items.slice(0, end);
}

function readWorkerActivity({ policies, keys, ...times }: WorkerActivity): WorkerActivity {
  const readKeys = (activity: KeyActivity) => ({
    ...activity,
    key: toList(activity.key),
    keys: toList(activity.keys),
    counts: toList(activity.counts),
  });
  return { ...times, policies: toList(policies), keys: toList(keys).map(readKeys) };
}

/** Requires the fields in `required`, allows those in `optional`, and removes all others. */
function recordSchema(required: Record<string, object>, optional: Record<string, object> = {}): object {
  return {
    type: "object",
    required: Object.keys(required),
    properties: { ...required, ...optional },
    additionalProperties: false,
  };
}

/** The schema of a message, with its `type` besides. */
function messageSchema(required: Record<string, object>, optional?: Record<string, object>): object {
  return recordSchema({ type: text, ...required }, optional);
}

/** Lua has the same empty table for [] and {}, and cjson writes it as {}: both stand for an empty list. */
function listSchema(items: object, maxItems = 10_000): object {
  return {
    anyOf: [
      { type: "object", maxProperties: 0 },
      { type: "array", maxItems, items },
    ],
  };
}

/** Counts what is in no text: clients write the keys that are reported. */
function hasMoreMarks(json: string, most: number): boolean {
  if (json.length <= most) return false;
  let marks = 0;
  let isText = false;
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i);
    if (code === quote) isText = !isText;
    else if (isText && code === backslash) i += 1;
    else if (!isText && (code === comma || code === openList || code === openObject)) marks += 1;
  }
  return marks > most;
}

const [quote, backslash, comma, openList, openObject] = [0x22, 0x5c, 0x2c, 0x5b, 0x7b];

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function toList<Item>(items: Item[]): Item[] {
  return Array.isArray(items) ? items : [];
}

/**
 * If a long refusal closed the socket instead, the gateway would repeat it after each reconnect, and its refusal would never be
 * recorded.
 */
function shortenedProblem({ path, expected, got }: Problem): Problem {
  return { path: shortened(path), expected: shortened(expected), got: shortened(got) };
}

function shortened(text: string): string {
  const start = cutToBytes(text, maxProblemBytes);
  return start.length < text.length ? `${start}…` : text;
}
