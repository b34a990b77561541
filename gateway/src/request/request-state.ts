// State of a request that is needed at its end: slots to release, a response to charge, a place in a queue. There is one record
// for each request that has any, with fields that belong to the modules which fill them.
//
// A request is identified by its address in nginx, which stays the same through internal redirects, unlike ngx.ctx. The log phase
// is always its last phase. If the operator left out `sluice.log()`, that phase never calls Sluice. So a check every 100 ms finds
// the requests that no longer live.

import { runEvery } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { requestAddress } from "../runtime/lua-modules.ts";
import { reportMissingLog } from "../runtime/missing-parts.ts";
import { currentLife, hasEnded, type Life } from "../runtime/request-life.ts";

/** The data that one module keeps for a request. */
export interface RequestField<Value> {
  readonly index: number;
  /**
   * Called when a request that still has this value has ended. Must not yield.
   *
   * @param inLogPhase false: the end was only noticed later, and nginx's data about the request is gone
   */
  readonly end: (this: void, value: Value, inLogPhase: boolean) => void;
}

interface RequestState {
  /** Undefined: there was no memory for it, and the log phase alone tells when the request ends. */
  readonly life: Life | undefined;
  /** Keyed by the fields' indexes. */
  readonly values: LuaTable<number, unknown>;
  valueCount: number;
}

const lookEverySeconds = 0.1;
const notEnded = "cleanup at the end of a request failed";

const fields: RequestField<unknown>[] = [];
/** By request address. */
const states = new LuaTable<number, RequestState | undefined>();
let stateCount = 0;

/** Called by modules as they load. When a request ends, fields are ended in the order in which they were created. */
export function newRequestField<Value>(end: RequestField<Value>["end"]): RequestField<Value> {
  const field: RequestField<Value> = { index: fields.length, end };
  fields.push(field as RequestField<unknown>);
  return field;
}

/** Called when a worker starts. */
export function watchRequests(): void {
  runEvery(lookEverySeconds, () => {
    endUnnoticed();
  });
}

/** The value that the current request has; undefined if none. */
export function ofRequest<Value>(field: RequestField<Value>): Value | undefined {
  if (stateCount === 0) return undefined;
  const state = liveState(requestAddress());
  return state === undefined ? undefined : (state.values.get(field.index) as Value | undefined);
}

/** Keeps this for the current request. @returns whether this worker learns when the request ends, even without its log phase */
export function keepForRequest<Value>(field: RequestField<Value>, value: Value): boolean {
  const address = requestAddress();
  let state = liveState(address);
  if (state === undefined) {
    state = { life: currentLife(), values: new LuaTable(), valueCount: 0 };
    states.set(address, state);
    stateCount += 1;
  }
  if (state.values.get(field.index) === undefined) state.valueCount += 1;
  state.values.set(field.index, value);
  return state.life !== undefined;
}

/** Takes this from the current request, which has it no longer. A request that leaves nothing has no record. */
export function takeFromRequest<Value>(field: RequestField<Value>): Value | undefined {
  if (stateCount === 0) return undefined;
  const address = requestAddress();
  const state = liveState(address);
  const value = state?.values.get(field.index) as Value | undefined;
  if (state === undefined || value === undefined) return undefined;
  state.values.delete(field.index);
  state.valueCount -= 1;
  if (state.valueCount === 0) {
    states.delete(address);
    stateCount -= 1;
  }
  return value;
}

/** Called in the log phase of the current request. */
export function endRequest(): void {
  if (stateCount === 0) return;
  const [ended, failure] = pcall(endCurrent);
  if (!ended) noteDefect("log", notEnded, failure);
}

function endCurrent(): void {
  const address = requestAddress();
  const state = liveState(address);
  if (state !== undefined) end(address, state, true);
}

/** A new request may have the address of one that ended without its log phase. */
function liveState(address: number): RequestState | undefined {
  const state = states.get(address);
  if (state === undefined || state.life === undefined || !hasEnded(state.life)) return state;
  reportMissingLog();
  end(address, state, false);
  return undefined;
}

/** Ends requests that have ended without their log phase. */
export function endUnnoticed(): void {
  if (stateCount === 0) return;
  for (const [address] of states) liveState(address);
}

function end(address: number, { values }: RequestState, inLogPhase: boolean): void {
  states.delete(address);
  stateCount -= 1;
  for (const field of fields) {
    const value = values.get(field.index);
    if (value === undefined) continue;
    // An error in one module must not keep the other fields from being ended.
    const [ended, failure] = pcall(field.end, value, inLogPhase);
    if (!ended) noteDefect("log", notEnded, failure);
  }
}
