// Whose token a request shows.

import type { Role } from "../storage/tokens.ts";

export interface Caller {
  /** The token's id. Unlike names, ids are unique. */
  readonly tokenId: string;
  /** The token's name. */
  readonly name: string;
  readonly role: Role;
  /** The app that the token is for; undefined means all apps. */
  readonly app: string | undefined;
}
