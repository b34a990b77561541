// The tables as queries see them. Times are milliseconds since 1970, documents are JSON text: both read the same from
// SQLite, MySQL and PostgreSQL.

export interface Tables {
  meta: MetaTable;
  apps: AppTable;
  policies: PolicyTable;
  revisions: RevisionTable;
  tokens: TokenTable;
  bans: BanTable;
  templates: TemplateTable;
}

/** One row, id 1: the head of the history. */
export interface MetaTable {
  id: number;
  /** Made with the database, and anew when its history lost its end: tells revisions of this history from those of another. */
  epoch: string;
  revision: number;
}

export interface AppTable {
  name: string;
  created_at: number;
  /** The revision that last changed it. */
  revision: number;
  /** Its realm as JSON; the text "legacy" of an app from before there were realms; null: it has none. */
  realm: string | null;
}

export interface PolicyTable {
  app: string;
  name: string;
  document: string;
  /** The revision that last changed it. */
  revision: number;
  updated_at: number;
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
}

export interface TemplateTable {
  app: string;
  name: string;
  document: string;
  /** The revision that last changed it. */
  revision: number;
  updated_at: number;
}
