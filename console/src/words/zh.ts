// What the console says in Chinese, by the room that says it.

import apps from "./zh/apps.json" with { type: "json" };
import attention from "./zh/attention.json" with { type: "json" };
import audit from "./zh/audit.json" with { type: "json" };
import bans from "./zh/bans.json" with { type: "json" };
import conflict from "./zh/conflict.json" with { type: "json" };
import consumers from "./zh/consumers.json" with { type: "json" };
import dialog from "./zh/dialog.json" with { type: "json" };
import diff from "./zh/diff.json" with { type: "json" };
import editor from "./zh/editor.json" with { type: "json" };
import forecast from "./zh/forecast.json" with { type: "json" };
import gateways from "./zh/gateways.json" with { type: "json" };
import history from "./zh/history.json" with { type: "json" };
import keys from "./zh/keys.json" with { type: "json" };
import members from "./zh/members.json" with { type: "json" };
import networks from "./zh/networks.json" with { type: "json" };
import newPolicy from "./zh/newPolicy.json" with { type: "json" };
import notices from "./zh/notices.json" with { type: "json" };
import overview from "./zh/overview.json" with { type: "json" };
import policies from "./zh/policies.json" with { type: "json" };
import policy from "./zh/policy.json" with { type: "json" };
import realm from "./zh/realm.json" with { type: "json" };
import refusal from "./zh/refusal.json" with { type: "json" };
import shell from "./zh/shell.json" with { type: "json" };
import signIn from "./zh/signIn.json" with { type: "json" };
import states from "./zh/states.json" with { type: "json" };
import templates from "./zh/templates.json" with { type: "json" };
import tokens from "./zh/tokens.json" with { type: "json" };
import traffic from "./zh/traffic.json" with { type: "json" };
import trial from "./zh/trial.json" with { type: "json" };

export default {
  apps,
  attention,
  audit,
  bans,
  conflict,
  consumers,
  dialog,
  diff,
  editor,
  forecast,
  gateways,
  history,
  keys,
  members,
  networks,
  newPolicy,
  notices,
  overview,
  policies,
  policy,
  realm,
  refusal,
  shell,
  signIn,
  states,
  templates,
  tokens,
  traffic,
  trial,
};
