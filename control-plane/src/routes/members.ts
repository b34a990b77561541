// /api/v1/members: people, and what they may do in each app.

import { nameShape } from "@sluice/limiter/document/policy-shape.ts";
import type { Field, Shape } from "@sluice/limiter/document/shape.ts";
import type { FastifyInstance } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { isKnown } from "../http/etags.ts";
import { appsOf, callerOf, requireRight } from "../plugins/authentication.ts";
import type { Caller } from "../rights/caller.ts";
import { groupsIn, withGroups } from "../rights/group-rights.ts";
import { type MemberRole, memberRoles } from "../rights/roles.ts";
import { afterParameter, dryRunParameter, limitParameter, memberSegment, querySchema } from "../schemas/parameters.ts";
import { schemaOf } from "../schemas/policy-schema.ts";
import { invalidRequest, readBody } from "../schemas/read-body.ts";
import { answers, etagHeader } from "../schemas/responses.ts";
import { createMember, deleteMember, getMember, listMembers, type Member, updateMember } from "../storage/members.ts";
import { originOf } from "./applied.ts";
import { etagOf, hasPrecondition, preconditionOf } from "./preconditions.ts";

const tags = ["members"];
const params = { type: "object", properties: { member: memberSegment } } as const;
const memberName = /^[a-z0-9][a-z0-9._@+-]{0,99}$/;

interface MemberBody {
  readonly name?: string;
  readonly roles?: Readonly<Record<string, MemberRole | "none">>;
  readonly admin?: boolean;
  readonly disabled?: boolean;
}

interface OneMember {
  Params: { member: string };
  Querystring: { dryRun: boolean };
}

const mostApps = 1_000;

export const nameField = {
  shape: {
    kind: "text",
    expected: 'a name of 1 to 100 characters from a-z, 0-9 and . _ @ + -, like "ann" or "ann@example.com"',
    maxBytes: 100,
    accepts: (text: string) => memberName.test(text),
  },
  description: "Identifies the member, and is how the history shows them. It never changes.",
  required: true,
} as const;

const changeFields = {
  roles: {
    shape: {
      kind: "map",
      names: nameShape,
      of: { kind: "choice", of: [...memberRoles, "none"] },
      minItems: 0,
      maxItems: mostApps,
    },
    description:
      "What the member is in each app. viewer may read. editor may also change policies, templates, bans and counters. owner may also manage tokens and members. none takes the role away. Apps that are absent stay as they are.",
  },
  admin: {
    shape: { kind: "boolean" },
    description: "Whether the member may do everything in all apps. Only an admin may set it.",
  },
  disabled: {
    shape: { kind: "boolean" },
    description: "Whether the member's tokens are refused, from the next request on. Only an admin may set it.",
  },
} as const satisfies Record<string, Field>;

const newMemberShape = { kind: "record", fields: { name: nameField, ...changeFields } } as const satisfies Shape;
const changeShape = { kind: "record", fields: changeFields } as const satisfies Shape;

export default async function memberRoutes(
  app: FastifyInstance,
  { signsInByOpenId }: { signsInByOpenId: boolean },
): Promise<void> {
  app.get<{ Querystring: { after: string; limit: number } }>(
    "/members",
    {
      config: { access: "manage", strangers: "filtered" },
      schema: {
        tags,
        summary: "List the members of the apps that you own, by name",
        description: "Roles in other apps are not shown.",
        querystring: querySchema({ after: afterParameter, limit: limitParameter }),
        response: answers({ 200: "MemberPage" }),
      },
    },
    async (request) => {
      const { after, limit } = request.query;
      const caller = callerOf(request);
      const apps = appsOf(caller, "manage");
      const scope = apps === undefined ? undefined : { apps, groups: groupsIn(app.groupMapping, apps) };
      const found = await listMembers(app.database, scope, after, limit + 1);
      const members = found.slice(0, limit);
      return {
        members: members.map((member) => shown(app, member, caller)),
        next: found.length > limit ? members.at(-1)?.name : undefined,
      };
    },
  );

  app.get<OneMember>(
    "/members/:member",
    {
      config: { access: "manage", strangers: "not-found", conditions: "read", refuses: ["member-not-found"] },
      schema: {
        tags,
        summary: "Read a member",
        params,
        querystring: querySchema({}),
        response: answers({ 200: "Member" }, etagHeader),
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const member = await requireVisible(app, caller, request.params.member);
      const etag = etagOf(member.version);
      reply.header("etag", etag);
      return isKnown(request, etag) ? reply.code(304).send() : shown(app, member, caller);
    },
  );

  app.post<{ Querystring: { dryRun: boolean } }>(
    "/members",
    {
      config: {
        access: "manage",
        strangers: "refused",
        records: "audit",
        body: schemaOf(newMemberShape),
        refuses: ["member-exists", "too-many-members", "app-not-found"],
      },
      schema: {
        tags,
        summary: "Add a member",
        description:
          "An app's owner may give roles in that app alone. Where people sign in by OpenID Connect, only an admin adds members. Give the member a token by POST /tokens.",
        querystring: querySchema({ dryRun: dryRunParameter }),
        response: answers({ 200: "MemberChange", 201: "MemberChange" }, etagHeader),
      },
    },
    async (request, reply) => {
      const { name = "", ...asked } = readBody<MemberBody>(newMemberShape, request.body);
      const caller = callerOf(request);
      requireAllowed(caller, asked);
      if (!caller.isAdmin && givesNoRole(asked)) {
        throw invalidRequest({ path: "roles", expected: "a role in an app that you own", got: "no role" });
      }
      // Somebody with this name at the provider may not have signed in yet, and could not if it were taken.
      if (!caller.isAdmin && signsInByOpenId) {
        const detail =
          "People sign in by OpenID Connect here, so only an admin adds a member. You may give a role to one that there is.";
        throw new ApiError("forbidden", detail);
      }
      const addedIn = caller.isAdmin
        ? undefined
        : Object.keys(asked.roles ?? {}).find((one) => asked.roles?.[one] !== "none");
      const member = await createMember(app.database, originOf(request), addedIn, name, changeOf(asked));
      if (request.query.dryRun) return { ...shown(app, member, caller), dryRun: true };
      reply.code(201).header("etag", etagOf(member.version));
      return shown(app, member, caller);
    },
  );

  app.patch<OneMember>(
    "/members/:member",
    {
      config: {
        access: "manage",
        strangers: "refused",
        records: "audit",
        body: schemaOf(changeShape),
        conditions: "change",
        refuses: ["member-not-found", "app-not-found"],
      },
      schema: {
        tags,
        summary: "Change a member's roles, or disable a member",
        description:
          "An app's owner may try by a dry run, or send If-Match or If-None-Match, only for members of that app.",
        params,
        querystring: querySchema({ dryRun: dryRunParameter }),
        response: answers({ 200: "MemberChange" }, etagHeader),
      },
    },
    async (request, reply) => {
      const asked = readBody<MemberBody>(changeShape, request.body);
      const caller = callerOf(request);
      requireAllowed(caller, asked);
      const { member: name } = request.params;
      // An owner who gives somebody a role learns who that is, and leaves a trace. A request that may leave none must not show more.
      if (givesNoRole(asked) || request.query.dryRun || hasPrecondition(request)) {
        await requireVisible(app, caller, name);
      }
      const member = await updateMember(
        app.database,
        originOf(request),
        name,
        changeOf(asked),
        preconditionOf(request),
      );
      if (request.query.dryRun) return { ...shown(app, member, caller), dryRun: true };
      reply.header("etag", etagOf(member.version));
      return shown(app, member, caller);
    },
  );

  app.delete<OneMember>(
    "/members/:member",
    {
      config: { records: "audit", conditions: "change", refuses: ["member-not-found"] },
      schema: {
        tags,
        summary: "Delete a member with their tokens",
        params,
        querystring: querySchema({ dryRun: dryRunParameter }),
        response: answers({ 200: "Nothing" }),
      },
    },
    async (request) => {
      await deleteMember(app.database, originOf(request), request.params.member, preconditionOf(request));
      return request.query.dryRun ? { dryRun: true } : {};
    },
  );
}

/** @throws ApiError member-not-found, also for a member whom the caller may not see */
async function requireVisible(app: FastifyInstance, caller: Caller, name: string): Promise<Member> {
  const member = await getMember(app.database, name);
  const apps = appsOf(caller, "manage");
  if (apps === undefined) return member;
  const ofApps = groupsIn(app.groupMapping, apps);
  const isVisible =
    apps.some((one) => member.roles[one] !== undefined) || member.groups.some((group) => ofApps.includes(group));
  if (!isVisible) {
    throw new ApiError("member-not-found", `There is no member "${name}" in the apps that you own.`);
  }
  return member;
}

/** @throws ApiError forbidden */
function requireAllowed(caller: Caller, { roles = {}, admin, disabled }: MemberBody): void {
  for (const app of Object.keys(roles)) requireRight(caller, "manage", app);
  if (caller.isAdmin) return;
  if (admin !== undefined || disabled !== undefined) {
    throw new ApiError("forbidden", "Only an admin may make a member an admin, or disable one.");
  }
}

function givesNoRole({ roles = {} }: MemberBody): boolean {
  return Object.values(roles).every((role) => role === "none");
}

function changeOf({ roles, admin, disabled }: MemberBody) {
  const stored =
    roles === undefined
      ? undefined
      : Object.fromEntries(Object.entries(roles).map(([app, role]) => [app, role === "none" ? null : role]));
  return { roles: stored, admin, disabled };
}

function shown(app: FastifyInstance, member: Member, caller: Caller) {
  const { name, isAdmin, disabledAtMs, createdAtMs, createdBy, roles, hasIdentity } = member;
  const apps = appsOf(caller, "manage");
  const inApps = <Role>(entries: Iterable<[string, Role]>) =>
    Object.fromEntries([...entries].filter(([one]) => apps === undefined || apps.includes(one)));
  return {
    name,
    admin: isAdmin,
    disabled: disabledAtMs !== undefined,
    disabledAt: disabledAtMs === undefined ? undefined : new Date(disabledAtMs).toISOString(),
    createdAt: new Date(createdAtMs).toISOString(),
    createdBy,
    roles: inApps(Object.entries(roles)),
    signsInByOpenId: hasIdentity,
    ...(hasIdentity ? byGroups(app, member, apps, inApps) : {}),
  };
}

function byGroups(
  { groupMapping }: FastifyInstance,
  { groups }: Member,
  apps: readonly string[] | undefined,
  inApps: <Role>(entries: Iterable<[string, Role]>) => Record<string, Role>,
) {
  const given = withGroups({ isAdmin: false, roles: new Map() }, groups, groupMapping);
  const known = apps === undefined ? [...groupMapping.keys()] : groupsIn(groupMapping, apps);
  return {
    groups: groups.filter((group) => known.includes(group)),
    rolesByGroups: inApps(given.roles),
    adminByGroups: given.isAdmin,
  };
}
