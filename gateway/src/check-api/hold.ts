// POST /sluice/v1/hold, /renew and /release: slots of concurrency for callers that are not behind the gateway. Whoever does not release what it
// holds, or does not renew it, loses it after the limit's ttl.

import { forgetUndecided, keepUndecided } from "../charging/admit.ts";
import { holdOf, noteHold, type PlaceOfHold, placeOf, releaseHold, renewHold } from "../charging/named-holds.ts";
import { chargeForGood, refundSurely } from "../charging/refunds.ts";
import { cjson } from "../runtime/lua-modules.ts";
import type { Settings } from "../settings.ts";
import { holdLifeMs } from "../stores/hold-marks.ts";
import type { Charge, NamedHold } from "../stores/store.ts";
import type { Caller } from "./caller-tokens.ts";
import { type CheckError, sendProblem } from "./check-errors.ts";
import { decideRequestedChecks, type Outcome, type RequestedCheck } from "./decide.ts";
import { holdText, newHoldName, readHold } from "./hold-text.ts";
import { readPost, sendJson } from "./post.ts";
import { readHoldRequest, readHoldText } from "./request-body.ts";
import { readRequestedChecks } from "./requested-policy.ts";
import { resultOf } from "./results.ts";
import { begin, beginChecks } from "./under-way.ts";

const notFound: CheckError = {
  code: "hold-not-found",
  detail: "Nothing is held by this: it was released, it has expired, or another gateway has it.",
};
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
  const held = holdOf(charge?.policy ?? outcome.policy, outcome.keyValues ?? "", place, name);
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
  const text = holdText(name, { policy, values, plan, cost: outcome.cost, place });
  sendJson(`{${resultOf(caller.app, outcome)},"hold":"${text}","ttl":${holdLifeMs(held) / 1000}}\n`);
  return undefined;
}

function answerRenewal(): CheckError | undefined {
  const [held, place, error] = readHeld();
  if (held === undefined || place === undefined) return error;
  const renewed = renewHold(place, held);
  if (renewed !== true) return renewed === undefined ? unknown : notFound;
  sendJson(`${cjson.encode({ ttl: holdLifeMs(held) / 1000 })}\n`);
  return undefined;
}

/** To release what is not held any more is no error: whoever got no answer asks again. */
function answerRelease(): CheckError | undefined {
  const [held, place, error] = readHeld();
  if (held === undefined || place === undefined) return error;
  const released = releaseHold(place, held);
  if (released === undefined) return unknown;
  sendJson(`{"released":${released}}\n`);
  return undefined;
}

function readHeld(): LuaMultiReturn<
  [held: NamedHold | undefined, place: PlaceOfHold | undefined, error: CheckError | undefined]
> {
  const [caller, body, postError] = readPost();
  if (caller === undefined || body === undefined) return $multi(undefined, undefined, postError);
  const [text, bodyError] = readHoldText(body);
  if (text === undefined) return $multi(undefined, undefined, bodyError);
  const [held, place] = readHold(caller as Caller, text);
  if (held === undefined || place === undefined || held.limits.length === 0) {
    return $multi(undefined, undefined, notFound);
  }
  const overload = place === "exact" ? begin(caller as Caller) : undefined;
  if (overload !== undefined) return $multi(undefined, undefined, overload);
  return $multi(held, place, undefined);
}
