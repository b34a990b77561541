// Without ngx_lua's code cache every request gets a Lua state of its own, in which nothing persists: no policies, no push socket.
// All requests would pass unlimited, so Sluice keeps an nginx with such a configuration from starting.
//
// Lua cannot query the directive. The parsed value is in nginx's memory, and the tables of nginx's modules say where. These
// tables are part of the interface that modules are built against. The code compares the name of each module before it trusts
// anything else.

import { stateDict } from "./shared-memory.ts";

/** A pointer; a null pointer is equal to nil. */
type Pointer<To> = To | undefined;
type CArray<Of> = Readonly<Record<number, Of>>;
type CNumber = object;

interface Module {
  readonly ctx_index: CNumber;
  readonly index: CNumber;
  readonly name: Pointer<object>;
  readonly commands: CArray<Command>;
}

interface Command {
  readonly name: { readonly len: CNumber; readonly data: object };
  readonly offset: CNumber;
}

/** The configuration that nginx parsed for one block, with one entry for each module. */
interface Context {
  readonly main_conf: CArray<object>;
  readonly loc_conf: CArray<object>;
}

interface Servers {
  readonly elts: CArray<Server>;
  readonly nelts: CNumber;
}

interface Server {
  readonly ctx: Context;
}

const ffi = require("ffi") as {
  cdef(this: void, declarations: string): void;
  cast(this: void, type: "struct sluice_servers *", value: object): Servers;
  cast(this: void, type: "char *", value: object): object;
  cast(this: void, type: "intptr_t *", value: object): CArray<CNumber>;
  string(this: void, text: object, length?: number): string;
  readonly C: {
    readonly sluice_cycle: Pointer<{ readonly conf: CArray<Pointer<Context>> }>;
    readonly sluice_http: Module;
    readonly sluice_http_core: Module;
    readonly sluice_http_lua: Module;
  };
};

// The first fields of nginx's ngx_module_t, ngx_command_t, ngx_cycle_t, ngx_http_conf_ctx_t, ngx_http_core_srv_conf_t, and of
// ngx_http_core_main_conf_t, which is the list of servers. They are the same from nginx 1.9.11 on.
ffi.cdef(`
  struct sluice_text { size_t len; const char *data; };
  struct sluice_command {
    struct sluice_text name; uintptr_t type; void *set; uintptr_t conf; uintptr_t offset; void *post;
  };
  struct sluice_module {
    uintptr_t ctx_index; uintptr_t index; const char *name; uintptr_t spare[2]; uintptr_t version; const char *signature;
    void *ctx; struct sluice_command *commands;
  };
  struct sluice_context { void **main_conf; void **srv_conf; void **loc_conf; };
  struct sluice_cycle { struct sluice_context **conf; };
  struct sluice_array { void *elts; uintptr_t nelts; size_t size; uintptr_t nalloc; void *pool; };
  struct sluice_server { struct sluice_array names; struct sluice_context *ctx; };
  struct sluice_servers { struct sluice_server **elts; uintptr_t nelts; };
  extern struct sluice_cycle *sluice_cycle asm("ngx_cycle");
  extern struct sluice_module sluice_http asm("ngx_http_module");
  extern struct sluice_module sluice_http_core asm("ngx_http_core_module");
  extern struct sluice_module sluice_http_lua asm("ngx_http_lua_module");
`);

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
  const offset = offsetOf(lua);
  const block = cycle.conf[whole(http.index)];
  if (offset === undefined || block === undefined) return false;
  const isOffIn = ({ loc_conf }: Context) => {
    const conf = ffi.cast("char *", loc_conf[whole(lua.ctx_index)] as object) as unknown as number;
    return tonumber(ffi.cast("intptr_t *", (conf + offset) as unknown as object)[0]) === 0;
  };
  if (isOffIn(block)) return true;
  const servers = ffi.cast("struct sluice_servers *", block.main_conf[whole(core.ctx_index)] as object);
  for (let i = 0; i < whole(servers.nelts); i++) {
    if (isOffIn((servers.elts[i] as Server).ctx)) return true;
  }
  return false;
}

function isNamed({ name }: Module, expected: string): boolean {
  return name !== undefined && ffi.string(name) === expected;
}

/** Returns the offset of the directive in a location's configuration. A command without a name ends the list of commands. */
function offsetOf({ commands }: Module): number | undefined {
  for (let i = 0; ; i++) {
    const { name, offset } = commands[i] as Command;
    const length = whole(name.len);
    if (length === 0) return undefined;
    if (ffi.string(name.data, length) === directive) return whole(offset);
  }
}

function whole(value: CNumber): number {
  return tonumber(value) as number;
}
