// A limiter lets nobody in. In a location with `satisfy any`, nginx lets a request in as soon as one module of the access phase says
// so, and Lua that returns has said so. There Sluice ends the phase as a module that has no say, once the operator's own Lua after
// the call has run. In other locations it makes no difference, and nothing is done.

import { ffi, isNamed, nginxRequest, numberAt, offsetOf, whole } from "./nginx-memory.ts";

const lookAgainSeconds = 0.001;

interface Place {
  readonly index: number;
  readonly offset: number;
}

/** Where the value of `satisfy` is in the configuration of a location. Undefined: this nginx does not tell. */
const place = placeOfSatisfy();

/** For the access phase, after the request was allowed. */
export function abstain(): void {
  if (isAnyEnough()) ngx.thread.spawn(endWithoutSay, coroutine.running() as LuaThread);
}

/** Returns whether one module that lets the request in is enough; true if nobody knows. */
function isAnyEnough(): boolean {
  if (place === undefined) return true;
  return whole(numberAt(nginxRequest().loc_conf[place.index] as object, place.offset)) !== 0;
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

function placeOfSatisfy(): Place | undefined {
  const [looked, found] = pcall(findSatisfy);
  return looked ? (found as Place | undefined) : undefined;
}

function findSatisfy(): Place | undefined {
  const { sluice_http_core: core } = ffi.C;
  if (!isNamed(core, "ngx_http_core_module")) return undefined;
  const offset = offsetOf(core, "satisfy");
  return offset === undefined ? undefined : { index: whole(core.ctx_index), offset };
}
