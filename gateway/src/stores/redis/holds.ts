// Slots that callers hold from one request to the next, in Redis: any gateway of the fleet renews and releases them.

import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import { holdKeyOf, keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { configuredRedis } from "../../redis/redis-settings.ts";
import type { Script } from "../../redis/script-request.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { holdMark, limitMark, noteLifeMs } from "../hold-marks.ts";
import type { HoldStore, NamedHold } from "../store.ts";
import { whole } from "./script-arguments.ts";
import { callInBatch } from "./submit.ts";

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const noteScript = scripts["note_hold"] as Script;
const renewScript = scripts["renew_hold"] as Script;
const releaseScript = scripts["release_hold"] as Script;

export const holdsInRedis: HoldStore = {
  note: (hold, heldAt) => {
    const args = [holdMark(hold), whole(noteLifeMs(hold)), ttlUs(hold)];
    hold.limits.forEach((limit, i) => {
      args.push(limitMark(limit));
      args.push(whole(heldAt[i] as number));
    });
    return ask(noteScript, [holdKey(hold)], args) === true;
  },
  renew: (hold) => {
    const terms = [holdMark(hold), whole(hold.policy.policy.cost), whole(noteLifeMs(hold)), ttlUs(hold)];
    return ask(renewScript, keysOf(hold), terms.concat(numbersOf(hold)));
  },
  release: (hold) => free(hold, "always"),
  end: (hold) => free(hold, "over"),
};

function free(hold: NamedHold, when: "always" | "over"): boolean | undefined {
  const terms = [holdMark(hold), whole(hold.policy.policy.cost), when, ""];
  return ask(releaseScript, keysOf(hold), terms.concat(numbersOf(hold)));
}

function ttlUs({ ttlMs = 0 }: NamedHold): string {
  return whole(ttlMs * 1000);
}

function ask(script: Script, keys: readonly string[], args: readonly string[]): boolean | undefined {
  const redis = configuredRedis();
  if (redis === undefined) return undefined;
  const [numbers, failure] = callInBatch(redis, script, keys, args, 1);
  if (failure !== undefined) warnSparingly("a caller's slots were not noted, renewed or released", failure);
  return numbers === undefined ? undefined : numbers[0] === 1;
}

function holdKey({ policy, keyValues, name }: NamedHold): string {
  return holdKeyOf(policy, keyValues, name);
}

function keysOf(hold: NamedHold): string[] {
  const { policy, keyValues, limits } = hold;
  return [holdKey(hold)].concat(limits.map((limit: CompiledLimit) => keyOf(policy, limit, keyValues)));
}

function numbersOf({ limits }: NamedHold): string[] {
  const numbers: string[] = [];
  for (const limit of limits) {
    numbers.push(limitMark(limit));
    numbers.push(whole(limit.rate.quota));
    numbers.push(whole(limit.rate.windowUs));
  }
  return numbers;
}
