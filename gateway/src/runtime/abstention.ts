// A limiter lets nobody in. In a location with `satisfy any`, nginx lets a request in as soon as one module of the access phase says
// so, and Lua that returns has said so. There Sluice ends the phase as a module that has no say, once the operator's own Lua after
// the call has run. In other locations it makes no difference, and nothing is done.
//
// Every request asks whether its location is one of these. So the place of the directive is in constants, and LuaJIT reads it with a
// few instructions, in the trace of the decision.

import { numberAt, placeOf } from "./nginx-memory.ts";

const lookAgainSeconds = 0.001;

const satisfy = placeOf("satisfy");
const isUnknown = satisfy === undefined;
const index = satisfy?.index ?? 0;
const offset = satisfy?.offset ?? 0;
/** NGX_HTTP_SATISFY_ALL. */
const all = 0;

/** Returns whether one module that lets the request in is enough; true if this nginx does not tell. */
export function isAnyEnough(): boolean {
  return isUnknown || numberAt(index, offset) !== all;
}

/** For the access phase in such a location, after the request was allowed. */
export function abstain(): void {
  ngx.thread.spawn(endWithoutSay, coroutine.running() as LuaThread);
}

/**
 * A light thread, which nginx waits for. Its own exit ends the phase; a refusal of the operator's ends the thread.
 *
 * @param caller the Lua that called Sluice. It runs on as soon as this thread waits, and mostly ends at once
 */
function endWithoutSay(this: void, caller: LuaThread): void {
  coroutine.yield();
  while (coroutine.status(caller) !== "dead") ngx.sleep(lookAgainSeconds);
  ngx.exit(ngx.DECLINED);
}
