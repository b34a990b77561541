// What a request of this worker leaves for its end: slots to release, a response to charge, a place in a queue. One record for each
// request that leaves anything, whose fields belong to the modules that fill them.
//
// A request is known by its address in nginx, which stays the same through internal redirects, where ngx.ctx does not. Its log
// phase is always its last. Where the operator left `sluice.log()` out, that phase never calls Sluice: a look each 100 ms asks
// whether the requests still live.

import { requestAddress } from "../runtime/lua-modules.ts";
import { reportMissingLog } from "../runtime/missing-parts.ts";
import { currentLife, hasEnded, type Life } from "../runtime/request-life.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";

/** What one module keeps for a request. */
export interface RequestField<Value> {
  readonly index: number;
  /**
   * Called when a request has ended that still has this. Does not yield.
   *
   * @param inLogPhase false: the request ended unnoticed, and what nginx knew of it is gone
   */
  readonly end: (this: void, value: Value, inLogPhase: boolean) => void;
}

interface RequestState {
  /** Undefined: there was no memory for it, and the log phase alone tells when the request ends. */
  readonly life: Life | undefined;
  /** By the fields' indexes. */
  readonly values: LuaTable<number, unknown>;
}

const lookEverySeconds = 0.1;

const fields: RequestField<unknown>[] = [];
/** By address. */
const states: Record<string, RequestState | undefined> = {};
let stateCount = 0;

/** For modules, as they load. When a request ends, fields end in the order in which they were made. */
export function newRequestField<Value>(end: RequestField<Value>["end"]): RequestField<Value> {
  const field: RequestField<Value> = { index: fields.length, end };
  fields.push(field as RequestField<unknown>);
  return field;
}

/** For each worker's start. */
export function watchRequests(): void {
  ngx.timer.every(lookEverySeconds, () => {
    endUnnoticed();
  });
}

/** What the current request has; undefined: nothing. */
export function ofRequest<Value>(field: RequestField<Value>): Value | undefined {
  if (stateCount === 0) return undefined;
  const state = liveState(requestAddress());
  return state === undefined ? undefined : (state.values.get(field.index) as Value | undefined);
}

/** @returns whether it is known when the request ends, even without its log phase */
export function keepForRequest<Value>(field: RequestField<Value>, value: Value): boolean {
  const address = requestAddress();
  let state = liveState(address);
  if (state === undefined) {
    state = { life: currentLife(), values: new LuaTable() };
    states[address] = state;
    stateCount += 1;
  }
  state.values.set(field.index, value);
  return state.life !== undefined;
}

/** The current request has it no longer. @returns what it had */
export function takeFromRequest<Value>(field: RequestField<Value>): Value | undefined {
  const value = ofRequest(field);
  if (value !== undefined) (states[requestAddress()] as RequestState).values.delete(field.index);
  return value;
}

/** In the log phase of the current request. */
export function endRequest(): void {
  if (stateCount === 0) return;
  const address = requestAddress();
  const state = liveState(address);
  if (state !== undefined) end(address, state, true);
}

/** A new request may have the address of one that ended without its log phase. */
function liveState(address: string): RequestState | undefined {
  const state = states[address];
  if (state === undefined || state.life === undefined || !hasEnded(state.life)) return state;
  reportMissingLog();
  end(address, state, false);
  return undefined;
}

/** Ends requests that have ended without their log phase. */
export function endUnnoticed(): void {
  if (stateCount === 0) return;
  for (const address in states) liveState(address);
}

function end(address: string, { values }: RequestState, inLogPhase: boolean): void {
  states[address] = undefined;
  stateCount -= 1;
  for (const field of fields) {
    const value = values.get(field.index);
    if (value === undefined) continue;
    // What fails for one module must not keep the others from their part.
    const [ended, failure] = pcall(field.end, value, inLogPhase);
    if (!ended) warnSparingly("a request did not end properly", `${failure}`);
  }
}
