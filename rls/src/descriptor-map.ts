// The operator's map: which policy a descriptor asks, and which of its values are the key. It is read once, at the start; a mistake in it
// names the place, what was expected and what came.

import { parse } from "yaml";
import { isPolicyReference } from "./policy-names.ts";
import type { Entry } from "./protocol.ts";

export interface Target {
  readonly policy: string;
  readonly key: readonly string[];
}

interface Rule {
  /** Undefined: every domain. */
  readonly domain: string | undefined;
  /** One for each entry of the descriptor, in order: the value that it must have; undefined: any. */
  readonly values: readonly (string | undefined)[];
  readonly policy: string;
  /** The places of the entries whose values are the key, in the key's order. */
  readonly key: readonly number[];
}

/** A mistake in the map. */
export class MapError extends Error {
  readonly expected: string;
  readonly got: string;

  constructor(path: string, expected: string, got: unknown) {
    super(`${path}: expected ${expected}`);
    this.name = "MapError";
    this.expected = `${path}: ${expected}`;
    this.got = shown(got);
  }
}

export class DescriptorMap {
  /** The only domains that are served; undefined: all. */
  readonly domains: ReadonlySet<string> | undefined;
  /** Whether a descriptor that no rule matches asks the policy that its names say. Otherwise it has no limit. */
  readonly hasDefaultRule: boolean;
  /** By the keys of the entries, in the order of the file. */
  readonly #rules = new Map<string, Rule[]>();

  /** @param text YAML or JSON @throws MapError for its first mistake */
  constructor(text: string) {
    const document = record("the map", parsed(text), ["domains", "unmatched", "rules"]);
    const { domains, unmatched = "default-rule", rules = [] } = document;
    this.domains = domains === undefined ? undefined : new Set(texts("domains", domains));
    if (unmatched !== "default-rule" && unmatched !== "unlimited") {
      throw new MapError("unmatched", "default-rule or unlimited", unmatched);
    }
    this.hasDefaultRule = unmatched === "default-rule";
    for (const [i, one] of list("rules", rules).entries()) this.#add(`rules[${i}]`, one);
  }

  #add(path: string, written: unknown): void {
    const { domain, entries, policy, key } = record(path, written, ["domain", "entries", "policy", "key"]);
    const conditions = list(`${path}.entries`, entries).map((entry, i) => conditionOf(`${path}.entries[${i}]`, entry));
    if (conditions.length === 0) throw new MapError(`${path}.entries`, "at least one entry", entries);
    if (typeof policy !== "string" || !isPolicyReference(policy)) {
      throw new MapError(`${path}.policy`, "the name of a policy, or APP/POLICY", policy);
    }
    const keys = conditions.map((condition) => condition.key);
    const rule: Rule = {
      domain: domain === undefined ? undefined : someText(`${path}.domain`, domain),
      values: conditions.map(({ value }) => value),
      policy,
      key:
        key === undefined
          ? freeOf(conditions)
          : texts(`${path}.key`, key).map((name, i) => placeOf(path, keys, name, i)),
    };
    const id = idOf(keys);
    const sameKeys = this.#rules.get(id);
    if (sameKeys === undefined) this.#rules.set(id, [rule]);
    else sameKeys.push(rule);
  }

  /** @returns what the first rule that matches says; undefined: none matches */
  targetOf(domain: string, entries: readonly Entry[]): Target | undefined {
    const rules = this.#rules.get(idOf(entries.map(({ key }) => key)));
    const rule = rules?.find(
      (one) =>
        (one.domain === undefined || one.domain === domain) &&
        one.values.every((value, i) => value === undefined || value === entries[i]?.value),
    );
    if (rule === undefined) return undefined;
    return { policy: rule.policy, key: rule.key.map((place) => (entries[place] as Entry).value) };
  }
}

interface Condition {
  readonly key: string;
  readonly value: string | undefined;
}

/** An entry is written as its key alone, or with the value that it must have. */
function conditionOf(path: string, written: unknown): Condition {
  if (typeof written === "string") return { key: someText(path, written), value: undefined };
  const { key, value } = record(path, written, ["key", "value"]);
  return {
    key: someText(`${path}.key`, key),
    value: value === undefined ? undefined : someText(`${path}.value`, value),
  };
}

/** A value that the rule itself says is the same for all, and makes no counters of their own. */
function freeOf(conditions: readonly Condition[]): number[] {
  return conditions.flatMap(({ value }, i) => (value === undefined ? [i] : []));
}

function placeOf(path: string, keys: readonly string[], name: string, at: number): number {
  const place = keys.indexOf(name);
  if (place === -1) throw new MapError(`${path}.key[${at}]`, `the key of one of the rule's entries`, name);
  if (keys.indexOf(name, place + 1) !== -1) {
    throw new MapError(`${path}.key[${at}]`, "a key that only one of the rule's entries has", name);
  }
  return place;
}

/** Lists of keys that differ have different texts, whatever characters the keys have. */
function idOf(keys: readonly string[]): string {
  return JSON.stringify(keys);
}

function parsed(text: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    throw new MapError("the map", "YAML or JSON", (error as Error).message.split("\n")[0]);
  }
}

function record(path: string, value: unknown, names: readonly string[]): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new MapError(path, `an object of ${names.join(", ")}`, value);
  }
  const unknown = Object.keys(value).find((name) => !names.includes(name));
  if (unknown !== undefined) throw new MapError(path, `no other fields than ${names.join(", ")}`, unknown);
  return value as Record<string, unknown>;
}

function list(path: string, value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new MapError(path, "a list", value);
  return value;
}

function texts(path: string, value: unknown): string[] {
  return list(path, value).map((one, i) => someText(`${path}[${i}]`, one));
}

/** YAML reads 1 and yes as other than texts, and Envoy sends texts alone. */
function someText(path: string, value: unknown): string {
  if (typeof value !== "string" || value === "") throw new MapError(path, "a text", value);
  return value;
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`;
}
