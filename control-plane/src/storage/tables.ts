// The tables as queries see them. Times are milliseconds since 1970, documents are JSON text: both read the same from
// SQLite, MySQL and PostgreSQL.

import type { Generated } from "kysely";

export interface Tables {
  meta: MetaTable;
  apps: AppTable;
  policies: PolicyTable;
  revisions: RevisionTable;
  tokens: TokenTable;
  bans: BanTable;
  templates: TemplateTable;
  usage: UsageTable;
  audit: AuditTable;
}

/** One row, id 1: the head of the history. */
export interface MetaTable {
  id: number;
  /** Made with the database, and anew when its history lost its end: tells revisions of this history from those of another. */
  epoch: string;
  revision: number;
  /** The key of the proofs that gateways are given of revisions. */
  proof_key: Generated<string>;
}

export interface AppTable {
  name: string;
  created_at: number;
  /** The revision that last changed it. */
  revision: number;
  /** Its realm as JSON; the text "legacy" of an app from before there were realms; null: it has none. */
  realm: string | null;
  /** Those that an admin set, as JSON; null: none. */
  bounds: string | null;
}

export interface PolicyTable {
  app: string;
  name: string;
  document: string;
  /** The revision that last changed it. */
  revision: number;
  updated_at: number;
  /** What it takes of the app's bounds, templates resolved. */
  bytes: number;
  steps: number;
}

export interface RevisionTable {
  number: number;
  at: number;
  who: string;
  action: string;
  /** Empty for a change of no app. */
  app: string;
  policy: string | null;
  /** The template or token that changed, by name, or the ban, by id. */
  subject: string | null;
  before: string | null;
  after: string | null;
}

export interface TokenTable {
  id: string;
  /** SHA-256 in hex; the token itself is never stored. */
  hash: string;
  name: string;
  role: string;
  app: string | null;
  created_at: number;
  expires_at: number | null;
  last_four: string;
}

/** Of a network, or of a policy's key. */
export interface BanTable {
  id: string;
  app: string;
  cidr: string | null;
  policy: string | null;
  /** A list of texts as JSON. */
  key_values: string | null;
  until_at: number;
  reason: string | null;
  created_at: number;
  created_by: string;
  /** The revision that made it. */
  revision: number;
  /** In a snapshot. */
  bytes: number;
}

export interface TemplateTable {
  app: string;
  name: string;
  document: string;
  /** The revision that last changed it. */
  revision: number;
  updated_at: number;
}

/** Sums of what an app has, to be held against its bounds; those of all apps together under the empty name. */
export interface UsageTable {
  app: string;
  policies: number;
  bytes: number;
  steps: number;
  templates: number;
  template_bytes: number;
  bans: number;
  ban_bytes: number;
  tokens: number;
  /** Of the tokens, those that gateways learn of. */
  callers: number;
  /** Of the history that is kept of the app, which outlives it. */
  history_entries: number;
  history_bytes: number;
  audit_bytes: number;
}

/** What was done that is no change of what gateways enforce: written once, never changed. */
export interface AuditTable {
  id: string;
  at: number;
  who: string;
  /** The address that it was asked from; null: by the control plane itself. */
  source: string | null;
  action: string;
  /** Empty: of no app. */
  app: string;
  subject: string | null;
  before: string | null;
  after: string | null;
  bytes: number;
}
