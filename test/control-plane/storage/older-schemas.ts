// Reverts steps of a database's schema, to a database as an older control plane left it.

const undoSessions = `
  drop table sessions; drop table member_groups;
`;

const undoListIndexes = `
  drop index bans_list; drop index tokens_list; drop index member_roles_list;
  drop index audit_list; drop index revisions_list; drop index revisions_action;
`;

const undoNetworkLists = `
  drop table network_lists;
  alter table usage drop column network_lists; alter table usage drop column network_bytes;
`;

const undoNewest = `
  alter table policies drop column hiding; alter table policies drop column secret_parts;
  alter table bans drop column secret_parts;
  alter table usage drop column hiding; alter table usage drop column hidden_ids;
  alter table policies drop column limits; alter table policies drop column kinds;
  alter table usage drop column limits; alter table usage drop column kinds;
  drop index bans_kind; alter table bans drop column pattern_kind;
  alter table bans drop column key_pattern;
  drop index sessions_ends; drop index tokens_expiry; drop index members_added_in;
  alter table members drop column added_in;
  alter table meta drop column terms;
  drop table kept_keys; drop table key_keepers; drop table traffic_hours;
`;

const undoConsumers = `
  ${undoNewest}
  ${undoNetworkLists}
  drop table consumers; drop table consumer_deletions; drop table consumer_imports;
  alter table meta drop column consumers_position; alter table meta drop column consumers_pruned;
  alter table usage drop column consumers;
`;

const undoExemptions = `
  ${undoConsumers}
  alter table apps drop column exempt;
`;

const undoHistoryBounds = `
  ${undoExemptions}
  drop index revisions_who; drop index revisions_who_of_app; drop index revisions_by_action; drop index revisions_subject;
  drop index audit_who; drop index audit_who_of_app; drop index audit_by_action; drop index audit_subject;
  alter table usage drop column history_pruned;
`;

const undoPeople = `
  ${undoHistoryBounds}
  ${undoListIndexes}
  drop table traffic_minutes; drop table relayed_activity;
  ${undoSessions}
  drop table counter_orders; drop table control_planes; drop table live_gateways;
  drop index revisions_at; alter table revisions drop column source;
  drop table members; drop table member_roles;
  drop index tokens_member; alter table tokens drop column member; alter table tokens drop column last_used_at;
  alter table policies drop column owner;
`;

const undoBoundsAndAudit = `
  ${undoPeople}
  drop table usage; drop table audit;
  drop index revisions_app; drop index bans_until; drop index bans_app;
  alter table meta drop column proof_key; alter table apps drop column bounds;
  alter table policies drop column bytes; alter table policies drop column steps;
  alter table bans drop column bytes;
`;

export const beforeRealms = `
  ${undoBoundsAndAudit}
  alter table apps drop column realm;
  delete from kysely_migration where name >= '0003';
`;
