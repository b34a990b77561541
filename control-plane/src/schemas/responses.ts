// Schemas of the API's responses, for its description only. They do not serialise responses.

import { appExemptShape } from "@sluice/limiter/document/app-exempt.ts";
import { realmShape } from "@sluice/limiter/realm/realm-shape.ts";
import { boundNames } from "../bounds/bounds.ts";
import { errorCatalogue } from "../errors/catalogue.ts";
import { kinds as suppliedKinds } from "../library/supplied.ts";
import { alarmNames } from "../push/alarms.ts";
import { appRoles, memberRoles } from "../rights/roles.ts";
import { templateShape } from "../templates/template-shape.ts";
import { type JsonSchema, schemaOf, storedPolicySchema } from "./policy-schema.ts";

const text = { type: "string" };
const count = { type: "integer", minimum: 0 };
const redisStates = ["not-configured", "connecting", "ok", "failing"];
const time = { type: "string", format: "date-time" };
const problems = {
  type: "array",
  items: object(
    {
      line: { ...count, description: "Of many policies: the line of the body that the document begins on." },
      policy: { ...text, description: "Of many policies: the name." },
      path: { ...text, description: "The place, like limits[0].quota; empty: the whole document or body." },
      expected: { ...text, description: "What is allowed there." },
      got: { ...text, description: "What came." },
    },
    ["line", "policy"],
  ),
};
const next = { ...text, description: "What to send as `after` for the next page; absent on the last page." };
const nextBefore = "What to send as `before` for the next page; absent on the last page.";
const etag = { ...text, description: "The version, for If-Match." };
const revision = { ...count, description: "The number of the change." };

const problem = {
  $id: "Problem",
  ...object(
    {
      type: { ...text, description: "The code as a URN." },
      title: { ...text, description: "The code in words." },
      status: { ...count, description: "The status of the answer." },
      detail: { ...text, description: "What is wrong, for people; it may change." },
      code: {
        type: "string",
        enum: Object.keys(errorCatalogue),
        description: "What is wrong, for programs; its meaning does not change.",
      },
      errors: { ...problems, description: "Every fault of the request." },
      etag: { ...text, description: "The current version, if If-Match or If-None-Match is false." },
      policies: { type: "array", items: text, description: "The policies that prevent the change." },
      bounds: {
        type: "array",
        items: object({
          bound: { type: "string", enum: boundNames },
          of: { type: "string", enum: ["policy", "template", "app", "all"] },
          used: count,
          allowed: count,
          wanted: { ...count, description: "How much more the request needs." },
        }),
        description: "The bounds that the change would exceed.",
      },
      stored: {
        ...object({ created: count, changed: count, deleted: count }),
        description:
          "Of an import of consumers that broke off: how many it has created, changed and deleted, which stay so.",
      },
      requestId: { ...text, description: "What to search for in the log of the control plane." },
    },
    ["errors", "etag", "policies", "bounds", "stored", "requestId"],
  ),
};

const policy = { $id: "Policy", ...storedPolicySchema };

const refusals = {
  type: "array",
  description: "The first ten gateways that refused, with the problems that they reported.",
  items: object({ gateway: text, revision: count, errors: problems }),
};

const applied = {
  ...object(
    {
      gateways: { ...count, description: "How many gateways are connected." },
      acked: { ...count, description: "How many of them have applied it." },
      refused: { ...count, description: "How many of them have refused it." },
      refusals,
    },
    ["refusals"],
  ),
  description: "How far the gateways are with the revision. Only with `wait`, and for tokens.",
};

const anything = {};

const documentChange = object({
  kind: { type: "string", enum: ["app", "policy", "template", "networks", "ban"] },
  app: text,
  name: text,
  change: { type: "string", enum: ["created", "updated", "deleted"] },
  patch: {
    type: "array",
    description: "A JSON Patch (RFC 6902) from the document before to the one after.",
    items: object({ op: text, path: text, value: anything, from: text }, ["value", "from"]),
  },
  text: { ...text, description: "A unified diff of both documents as YAML." },
});

/** What a change answers in addition, with ?dryRun=true. */
const dryRun = {
  dryRun: { type: "boolean", enum: [true], description: "Nothing was changed." },
  changes: { type: "array", description: "What would change.", items: documentChange },
  gateways: { type: "array", description: "The connected gateways, which would get the change.", items: text },
};
const ofDryRun = Object.keys(dryRun);
const moreChanges = {
  ...count,
  description: "With a dry run: how many changes there are beyond the first 1,000, which `changes` has.",
};

const change = { $id: "Change", ...object({ revision, applied, ...dryRun }, ["applied", ...ofDryRun]) };

const policyChange = {
  $id: "PolicyChange",
  ...object({ revision, applied, warnings: problems, ...dryRun }, ["applied", "warnings", ...ofDryRun]),
};

const policiesChange = {
  $id: "PoliciesChange",
  ...object(
    {
      revision: { ...count, description: "The newest revision of the app." },
      created: { ...count, description: "How many policies were not there before." },
      changed: { ...count, description: "How many were there, and have another document now." },
      unchanged: { ...count, description: "How many were there with the same document." },
      deleted: { ...count, description: "How many were deleted, with `prune`." },
      applied,
      warnings: problems,
      ...dryRun,
      moreChanges,
    },
    ["applied", "warnings", ...ofDryRun, "moreChanges"],
  ),
};

const bounds = object(Object.fromEntries(boundNames.map((name) => [name, count])));

const app = {
  $id: "App",
  ...object({
    name: text,
    createdAt: time,
    revision: count,
    realm: {
      anyOf: [schemaOf(realmShape), { type: "null" }],
      description: "The realm as it was put; null if the app has none.",
    },
    realmState: {
      type: "string",
      enum: ["set", "none", "legacy", "all"],
      description:
        "set: the app has a realm. none: its policies match no traffic. legacy: an app from before there were realms, whose policies may match everything. all: the app default, whose policies may match everything.",
    },
    exempt: {
      anyOf: [schemaOf(appExemptShape), { type: "null" }],
      description: "The exemptions as they were put; null if nobody is exempt. Those of app default hold for all apps.",
    },
    bounds: { ...bounds, description: "The most that the app may have of each resource." },
    used: { ...bounds, description: "How much the app uses of each resource." },
  }),
};

const appChange = {
  $id: "AppChange",
  ...object({ revision, applied, warnings: problems, ...dryRun }, ["applied", "warnings", ...ofDryRun]),
};

const validity = {
  $id: "Validity",
  ...object({ valid: { type: "boolean" }, errors: problems, warnings: problems }, ["errors", "warnings"]),
};

const policyPage = {
  $id: "PolicyPage",
  ...object(
    {
      policies: {
        type: "array",
        items: object(
          {
            name: text,
            etag,
            revision: count,
            updatedAt: time,
            owner: { ...text, description: "Who created the policy." },
            document: { $ref: "Policy#" },
          },
          ["owner"],
        ),
      },
      next,
    },
    ["next"],
  ),
};

const appPage = {
  $id: "AppPage",
  ...object({ apps: { type: "array", items: { $ref: "App#" } }, next }, ["next"]),
};

const who = { ...text, description: "The member, or the token: app/name, or only its name if it is an admin's." };
const action = { ...text, description: "What was done: one of the actions by which GET /audit filters." };

const revisionFields = {
  n: { ...count, description: "The number of the revision." },
  at: time,
  who,
  from: { ...text, description: "The address that the request came from." },
  action,
  app: text,
  policy: text,
  subject: {
    ...text,
    description:
      "The template, list of networks, token or ban that was changed; of a roll-back, the revision; of many policies, how many.",
  },
  summary: { ...text, description: "The change in words." },
};
const optionalRevisionFields = ["from", "app", "policy", "subject"];

const revisionPage = {
  $id: "RevisionPage",
  ...object(
    {
      revisions: { type: "array", items: object(revisionFields, optionalRevisionFields) },
      next: { ...count, description: nextBefore },
    },
    ["next"],
  ),
};

const revisionDetails = {
  $id: "RevisionDetails",
  ...object(
    {
      ...revisionFields,
      before: { description: "The document before the change; null if there was none." },
      after: { description: "The document after the change; null if there is none." },
    },
    optionalRevisionFields,
  ),
};

const diff = {
  $id: "Diff",
  ...object(
    {
      from: count,
      to: count,
      changes: { type: "array", items: documentChange },
      moreBans: {
        ...count,
        description: "How many bans were made or ended besides the newest 1,000, which `changes` has.",
      },
    },
    ["moreBans"],
  ),
};

const rollBack = {
  $id: "RollBack",
  ...object(
    {
      revision: { ...count, description: "The new revision; absent if nothing had to change." },
      applied,
      ...dryRun,
      changes: { type: "array", items: documentChange },
      moreChanges,
    },
    ["revision", "applied", "dryRun", "gateways", "moreChanges"],
  ),
};

const keys = {
  type: "array",
  items: object(
    {
      key: { type: "array", items: text, description: "The values of the policy's key." },
      hash: { ...text, description: "In place of values that are so long that only their hash is kept." },
      atLeast: { ...count, description: "The key had so many requests or more." },
      atMost: { ...count, description: "The key had so many requests or fewer." },
    },
    ["key", "hash"],
  ),
};

const topKeys = {
  $id: "TopKeys",
  ...object({
    app: text,
    policy: text,
    window: { type: "string", enum: ["minute", "hour"] },
    since: { ...time, description: "What was decided before is not counted." },
    complete: {
      type: "boolean",
      description:
        "False if some of what was decided since `since` may be missing: a control plane was killed before it had stored " +
        "it, none ran, or there were more keys than it has room for. The truth may then be above `atMost` and `othersAtMost`.",
    },
    admitted: keys,
    refused: { ...keys, description: "In shadow mode, the keys of requests that would have been refused." },
    othersAtMost: {
      ...object({ admitted: count, refused: count }),
      description: "No other key had more requests than this.",
    },
  }),
};

const traffic = {
  $id: "Traffic",
  ...object(
    {
      app: text,
      policy: text,
      step: { type: "string", enum: ["second", "minute", "hour"] },
      since: {
        ...time,
        description:
          "The points begin here. It is later than the `since` of the request, if that is older than what is kept. By hours, it is the beginning of an hour.",
      },
      until: time,
      complete: {
        type: "boolean",
        description:
          "False if there was so much since `since` that not all of it is kept, or if some hours since then are not known: no control plane ran for more than a day, or the database did not store hours yet.",
      },
      points: {
        type: "array",
        items: object({
          at: { ...time, description: "The beginning of the second, minute or hour." },
          admitted: count,
          refused: count,
          shadowRefused: { ...count, description: "What policies in shadow mode would have refused." },
          delayed: { ...count, description: "Requests that had to wait. They are among those admitted." },
          degraded: {
            ...count,
            description: "Requests that Redis did not decide. They are also counted by their result.",
          },
        }),
      },
    },
    ["policy"],
  ),
};

const busyCounts = {
  admitted: count,
  refused: count,
  shadowRefused: { ...count, description: "What would have been refused if the policy were not in shadow mode." },
  delayed: { ...count, description: "Requests that had to wait. They are among those admitted." },
  degraded: { ...count, description: "Requests that Redis did not decide. They are also counted by their result." },
  refusedByMinute: { type: "array", items: count, description: "From the minute of `since` to that of `until`." },
} as const;
const busySince = { ...time, description: "The beginning of the first minute." };

const busyPolicies = {
  $id: "BusyPolicies",
  ...object({
    app: text,
    since: busySince,
    until: time,
    policies: { type: "array", items: object({ policy: text, ...busyCounts }) },
  }),
};

const busyApps = {
  $id: "BusyApps",
  ...object({
    since: busySince,
    until: time,
    apps: { type: "array", items: object({ app: text, ...busyCounts }) },
  }),
};

const auditPage = {
  $id: "AuditPage",
  ...object(
    {
      entries: {
        type: "array",
        items: object(
          {
            id: text,
            at: time,
            who,
            from: { ...text, description: "The address that the request came from." },
            action,
            app: text,
            policy: text,
            subject: {
              ...text,
              description: "The template, token, member or ban; for a counter, its policy and key as JSON.",
            },
            revision: { ...count, description: "The revision, if the change is one that gateways enforce." },
            before: { description: "What was there before; absent if there was nothing." },
            after: { description: "What is there afterwards; absent if there is nothing." },
          },
          ["from", "app", "policy", "subject", "revision", "before", "after"],
        ),
      },
      next: { ...text, description: nextBefore },
    },
    ["next"],
  ),
};

const memberFields = {
  name: text,
  admin: { type: "boolean", description: "Whether somebody has made the member an admin." },
  disabled: { type: "boolean" },
  disabledAt: time,
  createdAt: time,
  createdBy: text,
  roles: rolesByApp("The roles that somebody has set, by app."),
  signsInByOpenId: { type: "boolean", description: "Whether the member has signed in by OpenID Connect." },
  groups: {
    type: "array",
    description: "The groups that the OpenID provider named at the last sign-in and that give rights here.",
    items: text,
  },
  rolesByGroups: rolesByApp("The roles that these groups give, by app."),
  adminByGroups: { type: "boolean", description: "Whether these groups give every right in every app." },
};
const optionalMemberFields = ["disabledAt", "groups", "rolesByGroups", "adminByGroups"];

const member = { $id: "Member", ...object(memberFields, optionalMemberFields) };

/** A dry run answers with the member as it would be. */
const memberChange = {
  $id: "MemberChange",
  ...object({ ...memberFields, dryRun: dryRun.dryRun }, [...optionalMemberFields, "dryRun"]),
};

const session = {
  $id: "Session",
  ...object(
    {
      who: { ...text, description: "How the history names the caller." },
      member: text,
      admin: { type: "boolean" },
      roles: {
        type: "object",
        description: "What the caller is in each app, if not an admin.",
        additionalProperties: { type: "string", enum: appRoles },
      },
      signedInBy: { type: "string", enum: ["token", "openid"] },
      startedAt: time,
      endsAt: { ...time, description: "When the session ends at the latest." },
      endsUnusedAt: { ...time, description: "When the session ends if it is not used. May be a minute earlier." },
      csrfToken: { ...text, description: "To be sent as X-CSRF-Token with every request that changes something." },
    },
    ["member", "signedInBy", "startedAt", "endsAt", "endsUnusedAt", "csrfToken"],
  ),
};

const memberPage = {
  $id: "MemberPage",
  ...object({ members: { type: "array", items: { $ref: "Member#" } }, next }, ["next"]),
};

const readiness = {
  $id: "Readiness",
  ...object({
    status: { type: "string", enum: ["ok"] },
    degraded: {
      type: "array",
      items: text,
      description: "What the control plane does not do, or not as well as it should, although it is ready.",
    },
    storage: {
      type: "string",
      enum: ["ok", "full", "unreachable", "unwritable"],
      description:
        "ok: changes can be stored. full: the disk is full. unwritable: it fails in another way. unreachable: the database has not answered.",
    },
    redis: { type: "string", enum: redisStates },
    gateways: { ...count, description: "How many gateways are connected." },
    alarms: {
      type: "array",
      description: "What is wrong with gateways, or between control planes.",
      items: object({ alarm: { type: "string", enum: alarmNames }, gateways: count }),
    },
  }),
};

const nothing = { $id: "Nothing", ...object({ dryRun: dryRun.dryRun }, ["dryRun"]) };

const redisIdentity = {
  ...text,
  description: "Names the data that this Redis has: all gateways of a fleet need the same. Absent until it is known.",
};

const redisOfControlPlane = {
  ...object(
    {
      state: { type: "string", enum: redisStates },
      since: time,
      error: text,
      id: redisIdentity,
    },
    ["since", "error", "id"],
  ),
  description: "The state of Redis as this control plane sees it.",
};

const redisOfGateway = {
  anyOf: [
    object(
      {
        state: { type: "string", enum: ["ok", "failing", "unused"] },
        since: time,
        id: redisIdentity,
        strayWorkers: {
          ...count,
          description: "How many of its workers use another Redis than `id`, because the name of Redis has just moved.",
        },
        overloadedWorkers: {
          ...count,
          description: "How many of its workers decide by the gateway's share by choice, because Redis is overloaded.",
        },
      },
      ["id"],
    ),
    { type: "null" },
  ],
  description: "The state of Redis in this gateway's last calls; null if it has no Redis or has not reported yet.",
};

const fleet = {
  $id: "Fleet",
  ...object(
    {
      revision: count,
      consumersPosition: { ...count, description: "The position of the newest change of a consumer." },
      connected: { ...count, description: "How many gateways are connected now." },
      redis: redisOfControlPlane,
      gateways: {
        type: "array",
        items: object(
          {
            id: text,
            connected: { type: "boolean" },
            connectedAt: time,
            disconnectedAt: time,
            version: text,
            workers: count,
            protocol: {
              ...count,
              description:
                "The version of the push protocol that it speaks. A gateway of version 1 gets all policies at every change; only those of version 3 get consumers.",
            },
            revision: count,
            lag: { ...count, description: "How many revisions the gateway is behind." },
            alarm: {
              anyOf: [{ type: "string", enum: alarmNames }, { type: "null" }],
              description:
                "Why the gateway fails, does not have the stored state, has no Redis although policies need one, or counts elsewhere or by its share by choice, if that will not resolve by itself; otherwise null.",
            },
            refused: {
              anyOf: [object({ revision: count, at: time, errors: problems }), { type: "null" }],
              description: "The last snapshot that the gateway refused, and why.",
            },
            counters: {
              type: "object",
              additionalProperties: { type: "number" },
              description: "How many decisions the gateway has made since nginx started, by result.",
            },
            errors: {
              anyOf: [{ type: "object", additionalProperties: count }, { type: "null" }],
              description:
                "How many errors of Sluice itself there were since nginx started, by place; null if there was none within the last minutes.",
            },
            warnings: {
              type: "array",
              items: text,
              description:
                "What its operator should look at: parts that its nginx.conf lacks, variables that nothing reads, and that no policy has counted a request since nginx started. At most 10.",
            },
            redis: redisOfGateway,
            consumers: {
              anyOf: [
                object({
                  position: { ...count, description: "The position up to which it has the changes of consumers." },
                  lag: { ...count, description: "How many changes it is behind." },
                  count: { ...count, description: "How many consumers it knows." },
                  unstored: { ...count, description: "How many of all apps have no room there." },
                }),
                { type: "null" },
              ],
              description:
                "null: its nginx.conf declares no shared dict sluice_consumers, or its version knows no consumers. Then all have the default plan there.",
            },
          },
          ["disconnectedAt"],
        ),
      },
      next,
    },
    ["next"],
  ),
};

const counterLimits = {
  type: "array",
  items: object({
    name: text,
    limit: { ...count, description: "The most units that can be taken at once." },
    used: count,
    remaining: count,
    resetAfter: {
      anyOf: [count, { type: "null" }],
      description:
        "Seconds, rounded up, until the counter is as if it had never been used. null: a lifetime's total, which only an operator gives again.",
    },
  }),
};

const counter = {
  $id: "Counter",
  ...object(
    {
      app: text,
      policy: text,
      scope: { type: "string", enum: ["node", "cluster"] },
      key: {
        type: "array",
        items: text,
        description: "The key as it is counted: an address is replaced by its network.",
      },
      limits: { ...counterLimits, description: "The limits of the counter in Redis, for a policy of scope cluster." },
      gateways: {
        type: "array",
        description: "The gateways that got the order. For a policy of scope node, each has its own limits.",
        items: object(
          {
            id: text,
            state: {
              type: "string",
              enum: ["done", "unknown", "silent"],
              description: "unknown: the gateway does not have the policy yet. silent: no answer came in time.",
            },
            limits: counterLimits,
          },
          ["limits"],
        ),
      },
    },
    ["limits"],
  ),
};

const tokenFields = {
  id: text,
  name: text,
  app: text,
  member: text,
  role: {
    type: "string",
    enum: [...appRoles, "admin", "gateway", "member"],
    description: "member: the token has the rights of its member. Only admins see tokens of admins and of gateways.",
  },
  expiresAt: { ...time, description: "Absent: it never expires." },
};
const optionalTokenFields = ["app", "member", "expiresAt"];

const token = {
  $id: "Token",
  ...object(
    {
      ...tokenFields,
      lastFour: { ...text, description: "The last four characters of the token." },
      lastUsedAt: { ...time, description: "Up to a minute late; absent if the token was never used." },
      createdAt: time,
      expired: { type: "boolean" },
    },
    [...optionalTokenFields, "lastUsedAt"],
  ),
};

const newToken = {
  $id: "NewToken",
  ...object(
    {
      ...tokenFields,
      token: { ...text, description: "The token itself, which is shown only here. Absent in a dry run." },
      revision: count,
      applied,
      ...dryRun,
    },
    [...optionalTokenFields, "token", "revision", "applied", ...ofDryRun],
  ),
};

const tokenPage = {
  $id: "TokenPage",
  ...object({ tokens: { type: "array", items: { $ref: "Token#" } }, next }, ["next"]),
};

/** The revision counts changes that gateways see: a token that gateways never see has none. */
const tokenChange = {
  $id: "TokenChange",
  ...object({ revision, applied, ...dryRun }, ["revision", "applied", ...ofDryRun]),
};

const banFields = {
  id: text,
  app: text,
  cidr: { ...text, description: "The banned network, with its host bits cleared." },
  policy: text,
  key: { type: "array", items: text, description: "The banned key values." },
  keyPattern: {
    type: "array",
    items: text,
    description: 'Patterns for key values: "*" at the end of one stands for any text.',
  },
  until: time,
  reason: text,
  createdAt: time,
  createdBy: text,
  revision: count,
};
const optionalBanFields = ["cidr", "policy", "key", "keyPattern", "reason"];

const ban = { $id: "Ban", ...object(banFields, optionalBanFields) };

const newBan = {
  $id: "NewBan",
  ...object({ ...banFields, applied, ...dryRun }, [...optionalBanFields, "applied", ...ofDryRun]),
};

const banPage = {
  $id: "BanPage",
  ...object({ bans: { type: "array", items: { $ref: "Ban#" } }, next }, ["next"]),
};

const consumerFields = {
  id: { ...text, description: "What requests have as the first value of a policy's key." },
  plan: { ...text, description: "The plan whose limits hold for the consumer's requests." },
  overrides: { type: "object", description: "Limits of the consumer's own, by the name of the policy." },
  changedAt: time,
};

const consumer = { $id: "Consumer", ...object({ ...consumerFields, etag }, ["overrides"]) };

const consumersPosition = {
  ...count,
  description: "The position of the change among those of all consumers: gateways report theirs in GET /gateways.",
};

const appliedConsumers = {
  ...object({
    gateways: { ...count, description: "How many gateways are connected." },
    acked: { ...count, description: "How many of them decide by it, and by all other consumers of the app." },
  }),
  description: "How far the gateways are with the change. Only with `wait`.",
};

const consumerChange = {
  $id: "ConsumerChange",
  ...object(
    {
      ...consumerFields,
      position: consumersPosition,
      applied: appliedConsumers,
      dryRun: dryRun.dryRun,
      warnings: problems,
    },
    [...Object.keys(consumerFields), "applied", "dryRun", "warnings"],
  ),
};

const consumersChange = {
  $id: "ConsumersChange",
  ...object(
    {
      done: { ...count, description: "How many lines are stored." },
      of: { ...count, description: "How many lines the body has." },
      created: { ...count, description: "How many consumers were not there before." },
      changed: { ...count, description: "How many were there with another plan or other limits." },
      unchanged: { ...count, description: "How many were there as the body has them." },
      deleted: { ...count, description: "How many were deleted, with `replace`." },
      position: consumersPosition,
      applied: appliedConsumers,
      warnings: problems,
    },
    ["applied", "warnings"],
  ),
};

const consumerPage = {
  $id: "ConsumerPage",
  ...object(
    {
      count: { ...count, description: "How many consumers the app has, whatever the query asks for." },
      consumers: { type: "array", items: { $ref: "Consumer#" } },
      idsHidden: {
        type: "boolean",
        description: "True if ids may be credentials, and each is replaced by a digest. Absent if not.",
      },
      next,
    },
    ["idsHidden", "next"],
  ),
};

const template = { $id: "Template", ...schemaOf(templateShape) };

const templatePage = {
  $id: "TemplatePage",
  ...object(
    {
      templates: {
        type: "array",
        items: object({ name: text, etag, revision: count, updatedAt: time, document: { $ref: "Template#" } }),
      },
      next,
    },
    ["next"],
  ),
};

const listOfNetworks = {
  name: text,
  etag,
  revision: count,
  updatedAt: time,
  count: { ...count, description: "How many networks are on it." },
  bytes: { ...count, description: "The bytes of its ranges, as gateways get them." },
};

const networkList = {
  $id: "NetworkList",
  ...object({
    ...listOfNetworks,
    networks: { type: "array", items: text, description: "The networks, in the order of their addresses." },
  }),
};

const networkListPage = {
  $id: "NetworkListPage",
  ...object({ lists: { type: "array", items: object(listOfNetworks) }, next }, ["next"]),
};

const suppliedWords = {
  title: text,
  description: { ...text, description: "What it is for, what the client sees, and what to change." },
};

const suppliedTemplate = {
  $id: "SuppliedTemplate",
  ...object({
    name: text,
    kind: {
      type: "string",
      enum: suppliedKinds,
      description:
        "action: an onLimit, which policies refer to as onLimit.template. policy: policies take it by the field template, and add what they match.",
    },
    ...suppliedWords,
    translations: {
      type: "object",
      description: "Title and description in other languages.",
      additionalProperties: object(suppliedWords),
    },
    document: { type: "object", additionalProperties: true, description: "The fields of a policy that it has." },
  }),
};

const suppliedLibrary = {
  $id: "Library",
  ...object({ templates: { type: "array", items: { $ref: "SuppliedTemplate#" } } }),
};

export const sharedSchemas = [
  problem,
  policy,
  change,
  policyChange,
  policiesChange,
  app,
  appChange,
  validity,
  policyPage,
  appPage,
  revisionPage,
  revisionDetails,
  diff,
  rollBack,
  auditPage,
  topKeys,
  traffic,
  busyPolicies,
  busyApps,
  member,
  memberChange,
  memberPage,
  session,
  readiness,
  nothing,
  fleet,
  counter,
  token,
  newToken,
  tokenPage,
  tokenChange,
  ban,
  newBan,
  banPage,
  consumer,
  consumerChange,
  consumersChange,
  consumerPage,
  template,
  templatePage,
  networkList,
  networkListPage,
  suppliedTemplate,
  suppliedLibrary,
];

export type SharedSchema =
  | "Problem"
  | "Policy"
  | "Change"
  | "PolicyChange"
  | "PoliciesChange"
  | "App"
  | "AppChange"
  | "Validity"
  | "PolicyPage"
  | "AppPage"
  | "RevisionPage"
  | "RevisionDetails"
  | "Diff"
  | "RollBack"
  | "AuditPage"
  | "TopKeys"
  | "Traffic"
  | "BusyPolicies"
  | "BusyApps"
  | "Member"
  | "MemberChange"
  | "MemberPage"
  | "Session"
  | "Readiness"
  | "Nothing"
  | "Fleet"
  | "Counter"
  | "Token"
  | "NewToken"
  | "TokenPage"
  | "TokenChange"
  | "Ban"
  | "NewBan"
  | "BanPage"
  | "Consumer"
  | "ConsumerChange"
  | "ConsumersChange"
  | "ConsumerPage"
  | "Template"
  | "TemplatePage"
  | "NetworkList"
  | "NetworkListPage"
  | "SuppliedTemplate"
  | "Library";

/** A schema of this file by its name, or one that a single route has. */
type Described = SharedSchema | JsonSchema;

/**
 * Describes what a route answers when it carries a request out, by status. openapi.json adds the refusals.
 * @param headers of all these answers, by their names
 */
export function answers(responses: Readonly<Record<number, Described>>, headers?: JsonSchema): JsonSchema {
  return Object.fromEntries(
    Object.entries(responses).map(([status, described]) => {
      if (typeof described !== "string" && (described["type"] === "null" || described["content"] !== undefined)) {
        return [status, described];
      }
      const schema = typeof described === "string" ? { $ref: `${described}#` } : described;
      const description = typeof described === "string" ? described : (described["description"] ?? "The answer.");
      const content = { "application/json": { schema } };
      return [status, { description, ...(headers === undefined ? {} : { headers }), content }];
    }),
  );
}

/** The responses of a route that answers 200 with a stream of server-sent events. */
export function answersWithEvents(description: string): JsonSchema {
  return answers({ 200: { description, content: { "text/event-stream": { schema: text } } } });
}

/** The header of answers about something with versions. */
export const etagHeader: JsonSchema = { etag: { type: "string", description: "The version, for If-Match." } };

function rolesByApp(description: string) {
  return { type: "object", description, additionalProperties: { type: "string", enum: memberRoles } };
}

export function object(properties: Record<string, JsonSchema>, optional: readonly string[] = []): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: "object", additionalProperties: false, required, properties };
}
