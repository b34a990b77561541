// What the console says in English, by the room that says it.

import apps from "./en/apps.json" with { type: "json" };
import attention from "./en/attention.json" with { type: "json" };
import audit from "./en/audit.json" with { type: "json" };
import bans from "./en/bans.json" with { type: "json" };
import conflict from "./en/conflict.json" with { type: "json" };
import consumers from "./en/consumers.json" with { type: "json" };
import dialog from "./en/dialog.json" with { type: "json" };
import diff from "./en/diff.json" with { type: "json" };
import editor from "./en/editor.json" with { type: "json" };
import forecast from "./en/forecast.json" with { type: "json" };
import gateways from "./en/gateways.json" with { type: "json" };
import history from "./en/history.json" with { type: "json" };
import keys from "./en/keys.json" with { type: "json" };
import members from "./en/members.json" with { type: "json" };
import networks from "./en/networks.json" with { type: "json" };
import newPolicy from "./en/newPolicy.json" with { type: "json" };
import notices from "./en/notices.json" with { type: "json" };
import overview from "./en/overview.json" with { type: "json" };
import policies from "./en/policies.json" with { type: "json" };
import policy from "./en/policy.json" with { type: "json" };
import realm from "./en/realm.json" with { type: "json" };
import refusal from "./en/refusal.json" with { type: "json" };
import shell from "./en/shell.json" with { type: "json" };
import signIn from "./en/signIn.json" with { type: "json" };
import states from "./en/states.json" with { type: "json" };
import templates from "./en/templates.json" with { type: "json" };
import tokens from "./en/tokens.json" with { type: "json" };
import traffic from "./en/traffic.json" with { type: "json" };
import trial from "./en/trial.json" with { type: "json" };

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
