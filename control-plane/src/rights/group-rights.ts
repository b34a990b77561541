// What the groups of an OpenID provider may do: the mapping that the operator sets, and the rights that a person's groups give by
// it. Groups are stored, and not what follows from them, so that another mapping is in force at the next start.

import type { AppRole, MemberRole } from "./roles.ts";
import { memberRoles } from "./roles.ts";

/** What one group gives. */
export interface GroupRights {
  readonly isAdmin: boolean;
  /** By app. */
  readonly roles: ReadonlyMap<string, MemberRole>;
}

/** By the name of the group, as the provider writes it. */
export type GroupMapping = ReadonlyMap<string, GroupRights>;

export interface GroupMappingFault {
  readonly expected: string;
  readonly got: string;
}

const expected = `GROUP=admin or GROUP=APP:ROLE with ROLE one of ${memberRoles.join(", ")}, several separated by commas, and %2C for a comma in GROUP`;
const appName = /^[a-z0-9][a-z0-9-]{0,62}$/;
const mostGroupBytes = 255;

/**
 * Reads `platform=admin,payments-dev=payments:editor`. A group may come several times, for several apps. The last `=` of an
 * entry ends the group, whose name may have more of them.
 */
export function parseGroupMapping(text: string): GroupMapping | GroupMappingFault {
  const mapping = new Map<string, { isAdmin: boolean; roles: Map<string, MemberRole> }>();
  for (const entry of text.split(",").map((one) => one.trim())) {
    const at = entry.lastIndexOf("=");
    const group = decoded(entry.slice(0, Math.max(at, 0)).trim());
    const right = entry.slice(at + 1).trim();
    if (at < 0 || group === undefined || group === "") return { expected, got: JSON.stringify(entry) };
    if (Buffer.byteLength(group) > mostGroupBytes) {
      return { expected: `groups of at most ${mostGroupBytes} bytes`, got: `${Buffer.byteLength(group)} bytes` };
    }
    const given = mapping.get(group) ?? { isAdmin: false, roles: new Map() };
    mapping.set(group, given);
    if (right === "admin") {
      given.isAdmin = true;
      continue;
    }
    const [app = "", name = "", ...more] = right.split(":");
    const role = memberRoles.find((known) => known === name);
    if (!appName.test(app) || role === undefined || more.length > 0) return { expected, got: JSON.stringify(entry) };
    const former = given.roles.get(app);
    if (former !== undefined && former !== role) {
      return { expected: `one role in an app for each group`, got: `${former} and ${role} in ${app} for ${group}` };
    }
    given.roles.set(app, role);
  }
  return mapping;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** From most to least. */
const rank: readonly AppRole[] = ["owner", "editor", "viewer", "caller"];

/** Adds what the groups give to what somebody has; of two roles in an app, the one that may do more. */
export function withGroups(
  own: { readonly isAdmin: boolean; readonly roles: ReadonlyMap<string, AppRole> },
  groups: readonly string[],
  mapping: GroupMapping,
): { isAdmin: boolean; roles: ReadonlyMap<string, AppRole> } {
  let { isAdmin } = own;
  const roles = new Map(own.roles);
  for (const group of groups) {
    const given = mapping.get(group);
    if (given === undefined) continue;
    isAdmin ||= given.isAdmin;
    for (const [app, role] of given.roles) {
      const former = roles.get(app);
      if (former === undefined || rank.indexOf(role) < rank.indexOf(former)) roles.set(app, role);
    }
  }
  return { isAdmin, roles };
}

/** Returns the groups that give a role in one of these apps. */
export function groupsIn(mapping: GroupMapping, apps: readonly string[]): string[] {
  return [...mapping].filter(([, { roles }]) => apps.some((app) => roles.has(app))).map(([group]) => group);
}
