// POST /sluice/v1/hold, /renew and /release: slots of concurrency for callers that are not behind the gateway. Whoever does not release what it
// holds, or does not renew it, loses it after the ttl that it asked for, or after the limit's.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { forgetUndecided, keepUndecided } from "../charging/admit.ts";
import { noteEnd } from "../charging/hold-ends.ts";
import {
  holdOf,
  noteHold,
  type PlaceOfHold,
  placeOf,
  releaseHold,
  renewHold,
  slotLimits,
} from "../charging/named-holds.ts";
import { chargeForGood, refundSurely } from "../charging/refunds.ts";
import type { Settings } from "../settings.ts";
import { holdLifeMs, slotLifeMs } from "../stores/hold-marks.ts";
import type { Charge, NamedHold } from "../stores/store.ts";
import { type CheckError, sendProblem } from "./check-errors.ts";
import { decideRequestedChecks, type Outcome, type RequestedCheck } from "./decide.ts";
import { holdText, newHoldName, readHold } from "./hold-text.ts";
import { readPost, sendJson } from "./post.ts";
import { readHoldRequest, readHoldText } from "./request-body.ts";
import { readRequestedChecks, type Written } from "./requested-policy.ts";
import { resultOf } from "./results.ts";
import { begin, beginChecks } from "./under-way.ts";

interface Held {
  /** Undefined: the text is no hold, or its policy is gone. */
  readonly held: NamedHold | undefined;
  readonly place: PlaceOfHold;
  readonly text: string;
}

const nothing: Held = { held: undefined, place: "none", text: "" };
const notNoted: CheckError = {
  code: "undecided",
  detail:
    "It cannot be noted what is held: Redis did not answer, or the gateway has no memory for it. Nothing is held.",
};
const unknown: CheckError = {
  code: "undecided",
  detail: "Redis did not answer, so it is not known what is held. Try again; the slots expire by themselves.",
};

export function hold(_settings: Settings): void {
  const error = answerHold();
  if (error !== undefined) sendProblem(error);
}

export function renew(_settings: Settings): void {
  const error = answerRenewal();
  if (error !== undefined) sendProblem(error);
}

export function release(_settings: Settings): void {
  const error = answerRelease();
  if (error !== undefined) sendProblem(error);
}

function answerHold(): CheckError | undefined {
  const [caller, body, postError] = readPost();
  if (caller === undefined || body === undefined) return postError;
  const [written, bodyError] = readHoldRequest(body);
  if (written === undefined) return bodyError;
  const [requested, checkError] = readRequestedChecks(caller, [written], true);
  if (requested === undefined) return checkError;
  const overload = beginChecks(caller, requested);
  if (overload !== undefined) return overload;
  const name = newHoldName();
  if (name === undefined) return { code: "internal", detail: "The gateway's system provides no random numbers." };
  const ask = requested[0] as RequestedCheck;
  const charges: Charge[] = [];
  const outcome = decideRequestedChecks(caller, requested, charges)[0] as Outcome;
  if (!outcome.allowed) {
    sendJson(`{${resultOf(caller.app, outcome)}}\n`);
    return undefined;
  }
  const charge = charges[0];
  const place = placeOf(charge);
  const ttlMs = ttlOf(written, outcome.policy);
  const held = holdOf(charge?.policy ?? outcome.policy, outcome.keyValues ?? "", place, name, ttlMs);
  // A caller that leaves before it has its answer holds nothing.
  keepUndecided(charges);
  const isNoted = noteHold(place, held, charge);
  forgetUndecided();
  if (!isNoted) {
    refundSurely(charges);
    return notNoted;
  }
  chargeForGood(charges);
  const { policy, values, plan } = ask;
  const text = holdText(name, { policy, values, plan, cost: outcome.cost, place, ttlMs });
  if (place !== "none") noteEnd(held, text);
  sendJson(`{${resultOf(caller.app, outcome)},"hold":"${text}","ttl":${lifeSeconds(held)}}\n`);
  return undefined;
}

function answerRenewal(): CheckError | undefined {
  const [asked, error] = readHeld();
  if (asked === undefined) return error;
  const { held, place } = asked;
  const renewed = held !== undefined && renewHold(place, held);
  if (renewed === undefined) return unknown;
  if (held !== undefined && renewed && place !== "none") noteEnd(held, asked.text);
  sendJson(held === undefined || !renewed ? '{"renewed":false}\n' : `{"renewed":true,"ttl":${lifeSeconds(held)}}\n`);
  return undefined;
}

/** To release what is not held any more is no error: whoever got no answer asks again. */
function answerRelease(): CheckError | undefined {
  const [asked, error] = readHeld();
  if (asked === undefined) return error;
  const { held, place } = asked;
  const released = held !== undefined && releaseHold(place, held);
  if (released === undefined) return unknown;
  sendJson(`{"released":${released}}\n`);
  return undefined;
}

/** Returns for how long it is held; undefined: for as long as its slots live. A policy that was edited meanwhile may have shorter ones. */
function ttlOf({ ttlUs }: Written, { limits }: CompiledPolicy): number | undefined {
  const ttlMs = ttlUs / 1000;
  return ttlMs > 0 && ttlMs < slotLifeMs(slotLimits(limits)) ? ttlMs : undefined;
}

/** Returns what the current request says that it holds; or what is wrong with the request. */
function readHeld(): LuaMultiReturn<[asked: Held | undefined, error: CheckError | undefined]> {
  const [caller, body, postError] = readPost();
  if (caller === undefined || body === undefined) return $multi(undefined, postError);
  const [text, bodyError] = readHoldText(body);
  if (text === undefined) return $multi(undefined, bodyError);
  const [held, place] = readHold(caller, text);
  if (held === undefined || place === undefined || held.limits.length === 0) return $multi(nothing, undefined);
  const overload = place === "exact" ? begin(caller) : undefined;
  if (overload !== undefined) return $multi(undefined, overload);
  return $multi({ held, place, text }, undefined);
}

function lifeSeconds(held: NamedHold): number {
  return holdLifeMs(held) / 1000;
}
