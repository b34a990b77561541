// Whether a request still lives, asked from outside of it: its log phase may never run, where an operator left it out.
//
// nginx frees a request's memory when it has ended, after its log phase, and ngx_lua then empties the slot in which its ngx.ctx
// stood, in a table that resty.core keeps. What stands in that slot tells therefore, at once and without reading memory
// that may be gone, whether the request has ended. A slot is used anew by later requests, which put tables of their own there.

import { requestPointer, resty } from "./lua-modules.ts";

/** What a request is known by as long as it lives. */
export interface Life {
  readonly slot: number;
  readonly context: object;
}

interface ContextCalls {
  /** The slot of the request's ngx.ctx; negative: it has none. */
  ngx_http_lua_ffi_get_ctx_ref(this: void, request: unknown, inSslPhase: undefined, sslSlot: undefined): number;
  /** Gives the request's ngx.ctx this slot, and has it emptied with the request's memory. */
  ngx_http_lua_ffi_set_ctx_ref(this: void, request: unknown, slot: number): number;
}

declare const debug: { getregistry(this: void): { ngx_lua_ctx_tables: LuaTable<number, object> } };

// resty.core has declared these functions.
const calls = (require("ffi") as { readonly C: ContextCalls }).C;
const slots = debug.getregistry().ngx_lua_ctx_tables;
const done = 0;

/**
 * The life of the current request.
 *
 * The slot that its ngx.ctx has by now is kept for this, and ngx.ctx, the same table as before, gets another one: other Lua may
 * replace it, and that is no end.
 *
 * @returns undefined: there is no memory for it
 */
export function currentLife(): Life | undefined {
  const context = ngx.ctx;
  const request = requestPointer();
  const slot = calls.ngx_http_lua_ffi_get_ctx_ref(request, undefined, undefined);
  if (slot < 0) return undefined;
  if (calls.ngx_http_lua_ffi_set_ctx_ref(request, resty.ref_in_table(slots, context)) !== done) return undefined;
  return { slot, context };
}

export function hasEnded({ slot, context }: Life): boolean {
  return slots.get(slot) !== context;
}
