// Defines, field by field, what a policy document may contain. The validator walks these shapes, and the control plane derives
// its JSON Schema from them: a field that is not here does not exist.

import { parseCidr } from "../key/cidr.ts";
import { isToken, keyPartGrammar, parseKeyPart } from "../key/key-part.ts";
import { isKeyPattern } from "../key/key-patterns.ts";
import { readRegex } from "../match/regex-syntax.ts";
import { calendarUnits, parseMonthAndDay } from "./calendar.ts";
import { parseCostOrigin } from "./cost.ts";
import { onLimitShape } from "./on-limit.ts";
import { days, parseTimeOfDay } from "./schedule.ts";
import { fieldNames, type Shape } from "./shape.ts";

export const maxPathBytes = 1024;
export const maxTimezoneBytes = 64;
/** The most items that a document may have in lists whose items are checked against each other. */
export const most = {
  limits: 16,
  plans: 32,
  keyParts: 8,
  overrides: 1000,
  exemptKeys: 1000,
  paths: 256,
  headers: 16,
  windows: 100,
  sharedWith: 100,
};

export const nameRule = "a name of a-z, 0-9 and -, beginning with a letter or digit, at most 63 long";
export const maxUnits = 2147483648;

const name: Shape & { kind: "text" } = { kind: "text", expected: nameRule, maxBytes: 63, accepts: isName };

export { name as nameShape };

export const unitsShape: Shape & { kind: "integer" } = { kind: "integer", min: 1, max: maxUnits };

const costSource: Shape & { kind: "record" } = {
  kind: "record",
  fields: {
    from: {
      shape: {
        kind: "text",
        expected: '"header:NAME", "request-bytes" or "response-bytes"',
        maxBytes: 300,
        accepts: (text) => parseCostOrigin(text) !== undefined,
      },
      description:
        "Where a request says what it costs: a header, the length of its body in bytes, or that of the response's, which is settled when it has been sent.",
      required: true,
    },
    default: { shape: unitsShape, description: "The cost of a request that does not say.", default: 1 },
    max: {
      shape: unitsShape,
      description: "The most that a request may cost. Absent: what the smallest of the limits ever holds.",
    },
  },
};

export const costFields = fieldNames(costSource);

const cost: Shape = { kind: "either", of: [unitsShape, costSource] };

export const algorithms: readonly string[] = [
  "token-bucket",
  "fixed-window",
  "sliding-window",
  "sliding-log",
  "leaky-bucket",
  "concurrency",
];

export const limitDuration: Shape = { kind: "duration", min: "1ms", max: "366d" };
export const initialShape: Shape & { kind: "integer" } = { kind: "integer", min: 0, max: maxUnits };
export const warmUpDuration: Shape = { kind: "duration", min: "1s", max: "1d" };
/** The window of a total that never comes back by itself. */
export const lifetime = "lifetime";
/** What `window` may be. The algorithm decides whether it may be a lifetime, or one of the calendar. */
export const limitWindow: Shape = {
  kind: "either",
  of: [limitDuration, { kind: "choice", of: [lifetime, ...calendarUnits] }],
};

export const windowButForLifetime: Shape = {
  kind: "either",
  of: [limitDuration, { kind: "choice", of: calendarUnits }],
};

/** The zone's name is checked only for its spelling. The control plane knows whether there is such a zone. */
const timezone: Shape = {
  kind: "text",
  expected: 'a time zone, like "Europe/Berlin"',
  maxBytes: maxTimezoneBytes,
  accepts: isTimezone,
};

/** On which day a window begins. The window decides which of these it may be. */
export const anchor: Shape = {
  kind: "either",
  of: [
    { kind: "integer", min: 1, max: 31 },
    {
      kind: "text",
      expected: 'a month and a day, like "04-06"',
      maxBytes: 5,
      accepts: (text) => parseMonthAndDay(text) !== undefined,
    },
  ],
};

const limit: Shape & { kind: "record" } = {
  kind: "record",
  fields: {
    name: { shape: name, description: "Unique in its policy; part of the stored key.", default: "default" },
    algorithm: {
      shape: { kind: "choice", of: algorithms },
      description: "How units are counted.",
      required: true,
    },
    quota: {
      shape: unitsShape,
      description: "Units per window; of concurrency, how many at once.",
      required: true,
    },
    window: {
      shape: limitWindow,
      description:
        "The time that the quota is for. Of a fixed-window also hour, day, week, month or year of the calendar, and in scope cluster lifetime, for units that only an operator gives again. Required, but of concurrency, which has none.",
    },
    timezone: {
      shape: timezone,
      description: "The zone whose clocks a window of the calendar goes by. Absent: UTC.",
    },
    anchor: {
      shape: anchor,
      description:
        "The day on which a window of the calendar begins: of a week 1 (Monday) to 7, of a month 1 to 31 (its last day, if it is shorter), of a year month and day. Absent: the first.",
    },
    burst: {
      shape: unitsShape,
      description: "Capacity of a token-bucket, or how many may wait in a leaky-bucket, in units. Absent: the quota.",
    },
    initial: {
      shape: initialShape,
      description: "Units with which a token-bucket begins that was never used, 0 to its burst. Absent: the burst.",
    },
    warmUp: {
      shape: warmUpDuration,
      description:
        "How long the rate of a token-bucket grows when it begins: from a third of quota per window to all of it, for what must warm up first. Absent: it has all of it at once.",
    },
    precision: {
      shape: limitDuration,
      description:
        "Length of a sliding-window's blocks: the window divided by 1 to 1000. Absent: a tenth of the window.",
    },
    maxDelay: {
      shape: limitDuration,
      description:
        "The longest that a request waits in a leaky-bucket: no more of its burst wait than depart in that time. Absent: 60s.",
    },
    ttl: {
      // The shortest ttl is 1s because the gateway looks for slots to renew ten times a second.
      shape: { kind: "duration", min: "1s", max: "366d" },
      description: "How long a slot of concurrency is held that nobody releases or renews. Absent: 60s.",
    },
  },
};

export const limitFields = fieldNames(limit);

const limits: Shape = { kind: "list", of: limit, minItems: 1, maxItems: most.limits };

export { limits as limitsShape };

const mode: Shape = { kind: "choice", of: ["enforce", "shadow", "off"] };

const keyPatterns: Shape = {
  kind: "list",
  of: {
    kind: "text",
    expected: 'a value, "*" for any, or the beginning of a value and "*", of at most 1024 bytes',
    maxBytes: 1024,
    accepts: isKeyPattern,
  },
  minItems: 0,
  maxItems: most.keyParts,
};

const override: Shape = {
  kind: "record",
  fields: {
    key: {
      shape: keyPatterns,
      description: "The key values that it is for: a pattern for each part of the policy's key.",
      required: true,
    },
    limits: {
      shape: limits,
      description: "What holds instead of the limits of the same names, which have the same algorithms.",
    },
    mode: { shape: mode, description: "Absent: the policy's." },
  },
};

export const networkOrListShape: Shape = {
  kind: "text",
  expected: 'a network like "10.0.0.0/8" or "2001:db8::/32", an address, or "@" and the name of a list of networks',
  maxBytes: 64,
  accepts: (text) => (text.startsWith("@") ? isName(text.slice(1)) : parseCidr(text) !== undefined),
};

/** Networks that are exempt. @param maxItems how many there may be */
export function exemptCidrsShape(maxItems: number): Shape {
  return { kind: "list", of: networkOrListShape, minItems: 0, maxItems };
}

const exempt: Shape = {
  kind: "record",
  fields: {
    cidrs: {
      shape: exemptCidrsShape(1000),
      description: "Networks whose addresses are not counted.",
    },
    keys: {
      shape: { kind: "list", of: keyPatterns, minItems: 0, maxItems: most.exemptKeys },
      description: "Key values that are not counted: each a pattern for each part of the policy's key.",
    },
  },
};

function timeOfDay(expected: string, most: number): Shape {
  const accepts = (text: string) => (parseTimeOfDay(text) ?? most + 1) <= most;
  return { kind: "text", expected, maxBytes: 5, accepts };
}

const schedule: Shape = {
  kind: "record",
  fields: {
    timezone: {
      shape: timezone,
      description: "The zone whose clocks the windows go by.",
      required: true,
    },
    windows: {
      shape: {
        kind: "list",
        of: {
          kind: "record",
          fields: {
            days: {
              shape: { kind: "list", of: { kind: "choice", of: days }, minItems: 1, maxItems: 7 },
              description: "The days that the window begins on. Absent: every day.",
            },
            from: {
              shape: timeOfDay('a time from "00:00" to "23:59"', 1439),
              description: "When the policy is on from.",
              required: true,
            },
            to: {
              shape: timeOfDay('a time from "00:00" to "24:00", another than from', 1440),
              description: "When it is off again: on the next day, where that is not after from.",
              required: true,
            },
          },
        },
        minItems: 1,
        maxItems: most.windows,
      },
      description: "When the policy is on: within any of them.",
      required: true,
    },
  },
};

export const hostPatternShape: Shape = {
  kind: "text",
  expected: 'a host name in lower case without a port, or "*." and one',
  maxBytes: 253,
  accepts: isHostPattern,
};

const match: Shape = {
  kind: "record",
  fields: {
    hosts: {
      shape: {
        kind: "list",
        of: hostPatternShape,
        minItems: 1,
        maxItems: 256,
      },
      description: 'Host names; "*.example.org" is every name below example.org.',
    },
    paths: {
      shape: {
        kind: "list",
        of: {
          kind: "text",
          expected:
            'a path beginning with "/", in normal form; "*" only as its last character, for a prefix; or "~" and a regular expression',
          maxBytes: maxPathBytes,
          accepts: isPathPattern,
          explains: explainRegex,
        },
        minItems: 1,
        maxItems: most.paths,
      },
      description: "Paths in nginx's normal form ($uri): exact, a prefix ending in *, or ~ and a regular expression.",
    },
    methods: {
      shape: {
        kind: "list",
        of: { kind: "text", expected: "an HTTP method in upper case", maxBytes: 32, accepts: isMethod },
        minItems: 1,
        maxItems: 32,
      },
      description: "HTTP methods.",
    },
    headers: {
      shape: {
        kind: "map",
        names: { kind: "text", expected: "a header name", maxBytes: 256, accepts: isHeaderName },
        of: {
          kind: "list",
          of: {
            kind: "text",
            expected: "text of 1 to 256 bytes without control characters, and without spaces around it",
            maxBytes: 256,
            accepts: isHeaderValue,
          },
          minItems: 1,
          maxItems: 64,
        },
        minItems: 1,
        maxItems: most.headers,
      },
      description: "Headers that must all be there, each with one of its values.",
    },
  },
};

const keyPart: Shape & { kind: "text" } = {
  kind: "text",
  expected: keyPartGrammar,
  maxBytes: 300,
  accepts: (text) => parseKeyPart(text) !== undefined,
};

/** The plan is that of the consumer whom the first value of the key names. */
export const byConsumer = "consumer";

const planBy: Shape = {
  kind: "text",
  expected: `${keyPartGrammar}, or ${byConsumer}`,
  maxBytes: 300,
  accepts: (text) => text === byConsumer || parseKeyPart(text) !== undefined,
};

export const policyShape: Shape & { kind: "record" } = {
  kind: "record",
  fields: {
    name: { shape: name, description: "Unique in its app.", required: true },
    description: {
      shape: { kind: "text", expected: "text of at most 2000 bytes", maxBytes: 2000 },
      description: "Free text.",
      default: "",
    },
    mode: {
      shape: mode,
      description: "shadow: counted and reported, never enforced.",
      default: "enforce",
    },
    priority: {
      shape: { kind: "integer", min: -1000000, max: 1000000 },
      description: "Higher is evaluated first; ties go by name.",
      default: 0,
    },
    match: { shape: match, description: "Every given field must match; an absent one matches all." },
    key: {
      shape: {
        kind: "list",
        of: keyPart,
        minItems: 0,
        maxItems: most.keyParts,
      },
      description: "The request attributes that pick the counter, in order; [] is one shared counter.",
      default: [],
    },
    secret: {
      shape: { kind: "map", names: keyPart, of: { kind: "boolean" }, minItems: 1, maxItems: most.keyParts },
      description:
        "By part of the key: true if its values are credentials, which logs and people who only look on do not get; false if they are none, although the name of the part is like that of a credential.",
    },
    onMissingKey: {
      shape: { kind: "choice", of: ["skip", "deny", "shared"] },
      description:
        "What happens when an attribute of the key is absent or empty. skip: the policy does not apply; deny: the request is answered 403; shared: the attribute counts as empty, beside the other parts of the key.",
      default: "skip",
    },
    limits: {
      shape: limits,
      description: "All must allow; all are charged or none. Required, unless there are plans.",
    },
    plans: {
      shape: { kind: "map", names: name, of: limits, minItems: 1, maxItems: most.plans },
      description: "Limits by plan, instead of limits: each request has those of its plan.",
    },
    planBy: {
      shape: planBy,
      description:
        "The request attribute that names the plan, like jwt:plan; consumer: the first value of the key names a consumer, who has a plan. Required with plans.",
    },
    defaultPlan: {
      shape: name,
      description: "The plan of a request whose attribute names none of the plans. Required with plans.",
    },
    cost: {
      shape: cost,
      description: "Units that one request takes, or where it says how many.",
      default: 1,
    },
    scope: {
      shape: { kind: "choice", of: ["node", "cluster"] },
      description: "node: counted on each nginx; cluster: counted in Redis for all.",
      default: "node",
    },
    consistency: {
      shape: { kind: "choice", of: ["exact", "leased"] },
      description:
        "cluster only. exact: Redis decides every request; leased: it debits units ahead, which gateways spend by themselves.",
      default: "exact",
    },
    onStoreFailure: {
      shape: { kind: "choice", of: ["local", "allow", "deny"] },
      description: "cluster only: what decides while Redis does not. local: this node, with quota ÷ live gateways.",
      default: "local",
    },
    maxStoreWait: {
      shape: { kind: "duration", min: "1ms", max: "1m" },
      description:
        "cluster only: the longest that a request waits for Redis; then onStoreFailure decides. Absent: as long as Redis answers.",
    },
    onLimit: {
      shape: onLimitShape,
      description: "What happens to a request over the limit.",
    },
    sharedWith: {
      shape: { kind: "list", of: name, minItems: 1, maxItems: most.sharedWith },
      description: "Other apps whose callers may check and charge this policy, as APP/POLICY.",
    },
    overrides: {
      shape: { kind: "list", of: override, minItems: 0, maxItems: most.overrides },
      description: "Other limits, or another mode, for particular key values: the first whose key matches.",
    },
    exempt: { shape: exempt, description: "Requests that the policy does not count." },
    schedule: { shape: schedule, description: "When the policy is on; outside, it is as if its mode were off." },
  },
};

export function isName(text: string): boolean {
  if (text === "" || text.length > 63 || text.charCodeAt(0) === 45) return false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (!isLowerOrDigit(code) && code !== 45) return false;
  }
  return true;
}

function isHostPattern(text: string): boolean {
  const host = text.startsWith("*.") ? text.slice(2) : text;
  if (host === "" || host.startsWith(".") || host.endsWith(".") || host.includes("..")) return false;
  // An IPv6 literal: [::1].
  const isLiteral = text.startsWith("[") && text.endsWith("]");
  for (let i = isLiteral ? 1 : 0; i < (isLiteral ? host.length - 1 : host.length); i++) {
    const code = host.charCodeAt(i);
    if (!isLowerOrDigit(code) && code !== 45 && code !== 46 && code !== 95 && !(isLiteral && code === 58)) return false;
  }
  return true;
}

function isPathPattern(text: string): boolean {
  if (text.startsWith("~")) return text !== "~" && readRegex(text.slice(1)).refusal === undefined;
  if (!text.startsWith("/") || text.includes("//") || text.includes("/./") || text.includes("/../")) return false;
  if (text.endsWith("/.") || text.endsWith("/..")) return false;
  const star = text.indexOf("*");
  return star < 0 || star === text.length - 1;
}

function explainRegex(text: string): string | undefined {
  const refusal = text.startsWith("~") ? readRegex(text.slice(1)).refusal : undefined;
  if (refusal === undefined) return undefined;
  // The "~" is the first character.
  return `"~" and a regular expression; at character ${refusal.position + 1} of this ${refusal.reason}`;
}

function isHeaderName(text: string): boolean {
  return text !== "" && isToken(text);
}

function isHeaderValue(text: string): boolean {
  if (text === "" || text.startsWith(" ") || text.endsWith(" ")) return false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 32 || code === 127) return false;
  }
  return true;
}

function isTimezone(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    const isCapital = code >= 65 && code <= 90;
    // + - / : _
    const isMark = code === 43 || code === 45 || code === 47 || code === 58 || code === 95;
    if (!isLowerOrDigit(code) && !isCapital && !isMark) return false;
  }
  return text !== "";
}

function isMethod(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if ((code < 65 || code > 90) && code !== 45 && code !== 95) return false;
  }
  return text !== "";
}

function isLowerOrDigit(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 48 && code <= 57);
}
