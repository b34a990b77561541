// The tables as queries see them. Times are milliseconds since 1970 and documents are JSON text: SQLite, MySQL and
// PostgreSQL read both in the same way.

import type { Generated, Kysely } from "kysely";

export type Database = Kysely<Tables>;

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
  control_planes: ControlPlaneTable;
  live_gateways: LiveGatewayTable;
  traffic_minutes: TrafficMinuteTable;
  traffic_hours: TrafficHourTable;
  relayed_activity: RelayedActivityTable;
  kept_keys: KeptKeysTable;
  key_keepers: KeyKeeperTable;
  counter_orders: CounterOrderTable;
  members: MemberTable;
  member_roles: MemberRoleTable;
  member_groups: MemberGroupTable;
  sessions: SessionTable;
  consumers: ConsumerTable;
  consumer_deletions: ConsumerDeletionTable;
  consumer_imports: ConsumerImportTable;
  network_lists: NetworkListTable;
}

/** A single row with id 1: the head of the history. */
export interface MetaTable {
  id: number;
  /**
   * Made with the database, and replaced when its history lost its end. It distinguishes revisions of this history from
   * those of another.
   */
  epoch: string;
  revision: number;
  /** The key for the proofs of revisions that gateways get. */
  proof_key: Generated<string>;
  /** As JSON: the terms of the epoch (terms.ts). Null: none. */
  terms: Generated<string | null>;
  /** The position of the last change of a consumer. It only grows. */
  consumers_position: Generated<number>;
  /** The highest position of a deletion that is not remembered any more; 0: none was forgotten. */
  consumers_pruned: Generated<number>;
}

export interface AppTable {
  name: string;
  created_at: number;
  /** The revision that last changed it. */
  revision: number;
  /** The realm as JSON; the text "legacy" for an app from before there were realms; null if it has none. */
  realm: string | null;
  /** The bounds that an admin set, as JSON; null if none are set. */
  bounds: string | null;
  /** Whom none of its policies count, as JSON; null if nobody is exempt. */
  exempt: string | null;
}

export interface PolicyTable {
  app: string;
  name: string;
  document: string;
  /** The revision that last changed it. */
  revision: number;
  updated_at: number;
  /** Who created it, as in the history; null if a former version did. */
  owner: string | null;
  /** What the policy uses of the app's bounds, with templates resolved. */
  bytes: number;
  steps: number;
  limits: number;
  kinds: number;
  /** 1 if ids of consumers may be credentials by this policy, otherwise 0. */
  hiding: number;
  /** Which parts of the key may hold credentials, as JSON (`SecretParts`); null: none. */
  secret_parts: string | null;
}

export interface RevisionTable {
  number: number;
  at: number;
  who: string;
  /** The address that the request came from; null if the control plane itself acted, or a former version wrote the entry. */
  source: string | null;
  action: string;
  /** Empty if the change belongs to no app. */
  app: string;
  policy: string | null;
  /** The name of the template or token that changed, or the id of the ban. */
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
  /** The member to whom the token belongs; null: a service's token. */
  member: string | null;
  /** Written now and then. */
  last_used_at: number | null;
}

/** A person. Their rights in an app are in `member_roles`. */
export interface MemberTable {
  name: string;
  /** 1 if the member has all rights in all apps, otherwise 0. */
  is_admin: number;
  /** Null: not disabled. */
  disabled_at: number | null;
  created_at: number;
  created_by: string;
  /** The app whose owner added the member. Null: an admin did, or the member by signing in. */
  added_in: string | null;
  /** Grows with each change of the member or their roles. */
  version: number;
  /** The provider's URL and the subject there, for those who sign in by OpenID Connect. */
  issuer: string | null;
  subject: string | null;
  /** When the provider last said which groups the member is in. */
  groups_at: number | null;
}

export interface MemberRoleTable {
  member: string;
  app: string;
  role: string;
}

/** A group of the OpenID provider that a member is in. Only those that the operator's mapping names are stored. */
export interface MemberGroupTable {
  member: string;
  group_name: string;
}

/** Somebody who is signed in. */
export interface SessionTable {
  id: string;
  /** SHA-256 of the secret, in hex; the secret itself is never stored. */
  hash: string;
  /** The hash of the secret before, until another one follows. */
  former_hash: string | null;
  /** From which the next secret and the CSRF token are made. */
  session_key: string;
  /** The id of the token by which somebody signed in; null: by OpenID Connect. */
  token: string | null;
  /** The member who is signed in; null: by a service's token. */
  member: string | null;
  created_at: number;
  rotated_at: number;
  /** When the present secret first came back; null: not yet. */
  confirmed_at: number | null;
  /** Written now and then. */
  used_at: number;
  ends_at: number;
}

/** A ban of a network, or of a policy's key values. */
export interface BanTable {
  id: string;
  app: string;
  cidr: string | null;
  policy: string | null;
  /** A list of texts, as JSON. */
  key_values: string | null;
  /** Instead of values, a list of patterns, as JSON. */
  key_pattern: string | null;
  /** The kind of the list of patterns, whose number is bounded. */
  pattern_kind: string | null;
  until_at: number;
  reason: string | null;
  created_at: number;
  created_by: string;
  /** The revision that made the ban. */
  revision: number;
  /** Size of the ban in a snapshot. */
  bytes: number;
  /** Which parts of the policy's key could hold credentials when the ban was made, as beside policies. */
  secret_parts: string | null;
}

export interface TemplateTable {
  app: string;
  name: string;
  document: string;
  /** The revision that last changed it. */
  revision: number;
  updated_at: number;
}

/** A named list of networks. */
export interface NetworkListTable {
  app: string;
  name: string;
  /** One on each line, in the order of their addresses. */
  networks: string;
  count: number;
  /** What gateways search: the ranges of both versions of IP (`Ranges`), as JSON. */
  ranges: string;
  /** Size of the ranges. */
  bytes: number;
  /** The revision that last changed it. */
  revision: number;
  updated_at: number;
}

/** A consumer: whose requests have the limits of a plan. */
export interface ConsumerTable {
  app: string;
  id: string;
  plan: string;
  /** Limits of its own by policy, as JSON; null: none. */
  overrides: string | null;
  /** When it changed last, among all consumers. No two changes have one position. */
  position: number;
  changed_at: number;
}

/** That a consumer was deleted, for gateways that still have it. One that came back afterwards may be here too. */
export interface ConsumerDeletionTable {
  /** As those of consumers that changed. */
  position: number;
  app: string;
  id: string;
  deleted_at: number;
}

/** An import of an app's consumers that is under way. */
export interface ConsumerImportTable {
  app: string;
  id: string;
  /** By the database's clock: when it does not count as under way any more, unless it gets on. */
  until_at: number;
  /** How many consumers it has taken room for, and not stored yet. */
  reserved: number;
}

/** Sums of what an app uses, to compare with its bounds. The sums of all apps have the empty name. */
export interface UsageSums {
  app: string;
  policies: number;
  bytes: number;
  steps: number;
  templates: number;
  template_bytes: number;
  bans: number;
  ban_bytes: number;
  tokens: number;
  /** The number of callers' tokens, which gateways learn of. */
  callers: number;
  /** The number of history entries that are kept for the app. They outlive it. */
  history_entries: number;
  history_bytes: number;
  audit_bytes: number;
}

export interface UsageTable extends UsageSums {
  /** The highest number of an entry of the app's history that was deleted; 0: none was. */
  history_pruned: Generated<number>;
  consumers: Generated<number>;
  network_lists: Generated<number>;
  network_bytes: Generated<number>;
  limits: Generated<number>;
  kinds: Generated<number>;
  /** The number of policies by which ids of consumers may be credentials. */
  hiding: Generated<number>;
  /** 1 if ids of consumers may be credentials by such a policy, or by one that the app had when it got them; otherwise 0. */
  hidden_ids: Generated<number>;
}

/** An action that does not change what gateways enforce. Written once, never changed. */
export interface AuditTable {
  id: string;
  at: number;
  who: string;
  /** The address that the request came from; null if the control plane itself acted. */
  source: string | null;
  action: string;
  /** Empty if the action belongs to no app. */
  app: string;
  subject: string | null;
  before: string | null;
  after: string | null;
  bytes: number;
}

/** A control plane that runs, or has just ended. */
export interface ControlPlaneTable {
  id: string;
  /** Grows with each change of its gateways' records. */
  version: number;
  /** By the database's clock. */
  seen_at: number;
  /** Grows when another control plane has an order for it. */
  asked: Generated<number>;
}

/** An order of one control plane that another one carries out. It is deleted when nobody waits for the answer any more. */
export interface CounterOrderTable {
  id: string;
  /** The control plane that is to carry it out. */
  target: string;
  /** The control plane that waits for the answer. */
  sender: string;
  /** The order, as JSON. */
  document: string;
  /** As JSON; null until it is there. */
  answer: string | null;
  /** By the database's clock. */
  at: number;
}

/** Traffic of one minute, of all gateways. */
export interface TrafficMinuteTable {
  at: number;
  /** As JSON. */
  traffic: string;
}

/** Traffic of one hour, of all gateways. */
export interface TrafficHourTable {
  /** "app/" or "app/policy"; empty in the row that says since when hours are known (activity.ts). */
  name: string;
  at: number;
  /** As JSON. */
  traffic: string;
}

/** What one control plane's gateways have reported, for the others. */
export interface RelayedActivityTable {
  control_plane: string;
  /** Grows with each report of a control plane. */
  number: number;
  /** By the database's clock. */
  written_at: number;
  /** As JSON. */
  report: string;
}

/** Keys of five minutes, as the gateways of one control plane have reported them. */
export interface KeptKeysTable {
  control_plane: string;
  /** Grows with each row of a control plane. */
  number: number;
  /** When the five minutes end, by the database's clock. */
  ends_at: number;
  /** As JSON. */
  report: string;
}

/** A control plane that keeps keys, or did so within the last hour. Its times are by the database's clock. */
export interface KeyKeeperTable {
  control_plane: string;
  /** Of its last row. */
  number: number;
  /** It does not know what was counted before. */
  known_since: number;
  /** It lost some of what was counted before. */
  lost_until: number;
  seen_at: number;
  /** 1 if it has ended and everything is stored, otherwise 0. */
  has_ended: number;
}

/** A gateway that is connected to a control plane. */
export interface LiveGatewayTable {
  control_plane: string;
  gateway: string;
  /** Of its control plane, when the record was stored. */
  version: number;
  /** As JSON. */
  record: string;
}
