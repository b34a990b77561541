// What the console says in English, by the room that says it.

import apps from "./en/apps.json";
import attention from "./en/attention.json";
import audit from "./en/audit.json";
import bans from "./en/bans.json";
import conflict from "./en/conflict.json";
import consumers from "./en/consumers.json";
import dialog from "./en/dialog.json";
import diff from "./en/diff.json";
import editor from "./en/editor.json";
import forecast from "./en/forecast.json";
import gateways from "./en/gateways.json";
import history from "./en/history.json";
import keys from "./en/keys.json";
import members from "./en/members.json";
import networks from "./en/networks.json";
import newPolicy from "./en/newPolicy.json";
import notices from "./en/notices.json";
import overview from "./en/overview.json";
import policies from "./en/policies.json";
import policy from "./en/policy.json";
import refusal from "./en/refusal.json";
import shell from "./en/shell.json";
import signIn from "./en/signIn.json";
import states from "./en/states.json";
import templates from "./en/templates.json";
import tokens from "./en/tokens.json";
import traffic from "./en/traffic.json";
import trial from "./en/trial.json";

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
