// Without ngx_lua's code cache every request gets a Lua state of its own, in which nothing persists: no policies, no push socket.
// All requests would pass unlimited, so Sluice keeps an nginx with such a configuration from starting.

import { type Context, ffi, isNamed, numberAt, offsetOf, whole } from "./nginx-memory.ts";
import { stateDict } from "./shared-memory.ts";

const directive = "lua_code_cache";
const explanation = `${directive} is off: every request would start with an empty Lua state, without policies, so that no request would be limited`;

/** Called in init_by_lua, when nginx has read its configuration. The check is skipped if nginx does not export its modules. */
export function requireCodeCache(): void {
  const [looked, isOff] = pcall(isCodeCacheOff);
  if (looked && isOff) error(`sluice: ${explanation}; expected ${directive} on in the blocks http and server`, 0);
}

/** Called by entry points that run in a location with the directive off. */
export function reportCodeCacheOff(): void {
  // This Lua state ends with the request, so the shared dict remembers whether the message was logged within the last second.
  if (!stateDict.add("code-cache-told", true, 1)[0]) return;
  ngx.log(
    ngx.ERR,
    "sluice: ",
    explanation,
    "; expected ",
    directive,
    " on in this location: the request was not limited",
  );
}

function isCodeCacheOff(): boolean {
  const { sluice_cycle: cycle, sluice_http: http, sluice_http_core: core, sluice_http_lua: lua } = ffi.C;
  if (cycle === undefined || !isNamed(http, "ngx_http_module")) return false;
  if (!isNamed(core, "ngx_http_core_module") || !isNamed(lua, "ngx_http_lua_module")) return false;
  const offset = offsetOf(lua, directive);
  const block = cycle.conf[whole(http.index)];
  if (offset === undefined || block === undefined) return false;
  const isOffIn = ({ loc_conf }: Context) => whole(numberAt(loc_conf[whole(lua.ctx_index)] as object, offset)) === 0;
  if (isOffIn(block)) return true;
  const servers = ffi.cast("struct sluice_servers *", block.main_conf[whole(core.ctx_index)] as object);
  for (let i = 0; i < whole(servers.nelts); i++) {
    if (isOffIn((servers.elts[i] as { readonly ctx: Context }).ctx)) return true;
  }
  return false;
}
