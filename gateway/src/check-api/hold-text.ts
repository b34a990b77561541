// Callers show this text to renew or release slots, and keep it as it came. It names the counters, and has a name that nobody can guess;
// the store has noted the rest. Whoever changes the text has a hold that does not exist.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { encodeKeyValues } from "../../../limiter/src/compiled/counter-key.ts";
import { holdOf, type PlaceOfHold } from "../charging/named-holds.ts";
import { limitsFor } from "../request/applicability.ts";
import { pricedPolicy } from "../request/costs.ts";
import { sha1Hex } from "../request/key-values.ts";
import { randomBytes } from "../runtime/files.ts";
import { cjson, strictJson } from "../runtime/lua-modules.ts";
import { policiesOf } from "../snapshot/current.ts";
import type { NamedHold } from "../stores/store.ts";
import type { Caller } from "./caller-tokens.ts";
import { isKeyValue, isSlots } from "./request-body.ts";
import { policyFor } from "./requested-policy.ts";

/** As the caller asked for it. */
export interface HoldTerms {
  readonly policy: CompiledPolicy;
  /** In the key's order, not encoded. */
  readonly values: readonly string[];
  readonly plan: string | undefined;
  readonly cost: number;
  readonly place: PlaceOfHold;
  /** Undefined: for as long as the slots live. */
  readonly ttlMs: number | undefined;
}

const nameBytes = 16;
/** The list, and the list of values in it. */
const json = strictJson(2);
const placeLetters: Readonly<Record<PlaceOfHold, string>> = { node: "n", share: "s", exact: "r", none: "-" };

/** @returns undefined: the system provides no random numbers */
export function newHoldName(): string | undefined {
  const bytes = randomBytes(nameBytes);
  return bytes === undefined ? undefined : ngx.encode_base64(bytes);
}

export function holdText(name: string, { policy, values, plan, cost, place, ttlMs }: HoldTerms): string {
  const policyName = `${policy.app}/${policy.name}`;
  const terms = [name, policyName, plan ?? false, cost, placeLetters[place], ttlMs ?? 0, ...values];
  const [text] = string.gsub(ngx.encode_base64(cjson.encode(terms)), "[+/=]", { "+": "-", "/": "_", "=": "" });
  return text;
}

/** Returns the caller's hold of a text; undefined: there is none. Its slots may have been released. */
export function readHold(
  caller: Caller,
  text: string,
): LuaMultiReturn<[hold: NamedHold | undefined, place: PlaceOfHold | undefined]> {
  return readTerms(text, (name) => policyFor(caller, name));
}

/** The same for a text that this gateway has made itself, whoever its caller was. */
export function readOwnHold(
  this: void,
  text: string,
): LuaMultiReturn<[hold: NamedHold | undefined, place: PlaceOfHold | undefined]> {
  return readTerms(text, anyPolicy);
}

function anyPolicy(this: void, name: string): CompiledPolicy | undefined {
  const [app, ofApp] = string.match(name, "^([^/]+)/([^/]+)$");
  return app === undefined ? undefined : policiesOf(app)[ofApp as string];
}

function readTerms(
  text: string,
  find: (this: void, policyName: string) => CompiledPolicy | undefined,
): LuaMultiReturn<[hold: NamedHold | undefined, place: PlaceOfHold | undefined]> {
  const [base64] = string.gsub(text, "[-_]", { "-": "+", _: "/" });
  const decoded = ngx.decode_base64(base64 + string.rep("=", (4 - (base64.length % 4)) % 4));
  if (decoded === undefined) return $multi(undefined, undefined);
  const [terms] = json.decode<unknown>(decoded);
  if (!Array.isArray(terms)) return $multi(undefined, undefined);
  const [name, policyName, plan, cost, letter, ttlMs, ...values] = terms as unknown[];
  const isPlan = plan === false || typeof plan === "string";
  if (!isName(name) || typeof policyName !== "string" || !isPlan || !isSlots(cost) || !isTtl(ttlMs)) {
    return $multi(undefined, undefined);
  }
  for (const value of values) if (!isKeyValue(value)) return $multi(undefined, undefined);
  const policy = find(policyName);
  const place = placeFor(letter);
  if (policy === undefined || place === undefined) return $multi(undefined, undefined);
  if (values.length !== policy.policy.key.length) return $multi(undefined, undefined);
  const texts = values as string[];
  const applied = pricedPolicy(limitsFor(policy, texts, plan === false ? undefined : plan), cost);
  const keyValues = encodeKeyValues(texts, texts.length, sha1Hex);
  return $multi(holdOf(applied, keyValues, place, name, ttlMs > 0 ? ttlMs : undefined), place);
}

/** As `newHoldName` makes them. */
function isName(name: unknown): name is string {
  return typeof name === "string" && string.match(name, "^[%w+/]+==$")[0] !== undefined && name.length === 24;
}

function isTtl(ttlMs: unknown): ttlMs is number {
  return typeof ttlMs === "number" && ttlMs >= 0 && math.floor(ttlMs) === ttlMs;
}

function placeFor(letter: unknown): PlaceOfHold | undefined {
  for (const place of ["node", "share", "exact", "none"] as const) {
    if (placeLetters[place] === letter) return place;
  }
  return undefined;
}
