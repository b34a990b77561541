// What the console says in Chinese, by the room that says it.

import apps from "./zh/apps.json";
import attention from "./zh/attention.json";
import audit from "./zh/audit.json";
import bans from "./zh/bans.json";
import conflict from "./zh/conflict.json";
import consumers from "./zh/consumers.json";
import dialog from "./zh/dialog.json";
import diff from "./zh/diff.json";
import editor from "./zh/editor.json";
import forecast from "./zh/forecast.json";
import gateways from "./zh/gateways.json";
import history from "./zh/history.json";
import keys from "./zh/keys.json";
import members from "./zh/members.json";
import networks from "./zh/networks.json";
import newPolicy from "./zh/newPolicy.json";
import notices from "./zh/notices.json";
import overview from "./zh/overview.json";
import policies from "./zh/policies.json";
import policy from "./zh/policy.json";
import refusal from "./zh/refusal.json";
import shell from "./zh/shell.json";
import signIn from "./zh/signIn.json";
import states from "./zh/states.json";
import templates from "./zh/templates.json";
import tokens from "./zh/tokens.json";
import traffic from "./zh/traffic.json";
import trial from "./zh/trial.json";

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
  refusal,
  shell,
  signIn,
  states,
  templates,
  tokens,
  traffic,
  trial,
};
