// Finds out whether a request still lives, from outside of it: its log phase may never run, because an operator left it out.
//
// nginx frees a request's memory after the log phase, and ngx_lua then clears the slot that held the request's ngx.ctx, in a
// table that resty.core keeps. So the content of that slot shows at once whether the request has ended, without a read of memory
// that may be freed. Later requests reuse the slot and put tables of their own there.

import { requestPointer, resty } from "./lua-modules.ts";

/** Identifies a request as long as it lives. */
export interface Life {
  readonly slot: number;
  readonly context: object;
}

interface ContextCalls {
  /** The slot of the request's ngx.ctx; negative if it has none. */
  ngx_http_lua_ffi_get_ctx_ref(this: void, request: unknown, inSslPhase: undefined, sslSlot: undefined): number;
  /** Assigns this slot to the request's ngx.ctx, and has it cleared when the request's memory is freed. */
  ngx_http_lua_ffi_set_ctx_ref(this: void, request: unknown, slot: number): number;
}

declare const debug: { getregistry(this: void): { ngx_lua_ctx_tables: LuaTable<number, object> } };

// resty.core has declared these functions to the ffi.
const calls = (require("ffi") as { readonly C: ContextCalls }).C;
const slots = debug.getregistry().ngx_lua_ctx_tables;
const done = 0;

/**
 * Returns the life of the current request.
 *
 * This takes over the slot that its ngx.ctx has now, and ngx.ctx, still the same table, gets another slot: other Lua code may
 * replace ngx.ctx, which must not look like the end of the request.
 *
 * @returns undefined if there is no memory for it
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
