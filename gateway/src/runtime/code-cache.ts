// Without ngx_lua's code cache every request gets a Lua state of its own, in which nothing persists: no policies, no push socket. Lua
// cannot query the directive, and finds out when it is to decide a request.

import { stateDict } from "./shared-memory.ts";

/** Called by entry points that run where the directive is off. */
export function reportCodeCacheOff(): void {
  // This Lua state ends with the request, so the shared dict remembers whether the message was logged within the last second.
  if (!stateDict.add("code-cache-told", true, 1)[0]) return;
  ngx.log(
    ngx.ERR,
    "sluice: lua_code_cache is off: every request starts with an empty Lua state, without policies, so this one was not limited; ",
    "expected lua_code_cache on in the blocks http and server and in this location",
  );
}
