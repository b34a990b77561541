// The roles that there are.

/** What a member can be in an app. */
export const memberRoles = ["owner", "editor", "viewer"] as const;
export type MemberRole = (typeof memberRoles)[number];

/** What a service's token can be in its app. */
export const appRoles = [...memberRoles, "caller"] as const;
export type AppRole = (typeof appRoles)[number];

/** What a token can be. member: it has the rights of the member to whom it belongs. */
export type Role = AppRole | "admin" | "gateway" | "member";
