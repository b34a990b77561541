// What nginx has parsed from its configuration, and what it keeps of a request, as far as Lua cannot ask for it.
//
// The parsed values are in nginx's memory, and the tables of nginx's modules say where. These tables are part of the interface that
// modules are built against. Whoever uses them compares the name of each module before it trusts anything else.

import { requestPointer } from "./lua-modules.ts";

/** A pointer; a null pointer is equal to nil. */
export type Pointer<To> = To | undefined;
export type CArray<Of> = Readonly<Record<number, Of>>;
export type CNumber = object;

export interface Module {
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
export interface Context {
  readonly main_conf: CArray<object>;
  readonly loc_conf: CArray<object>;
}

interface Servers {
  readonly elts: CArray<{ readonly ctx: Context }>;
  readonly nelts: CNumber;
}

/** What nginx keeps of a request. */
export interface NginxRequest {
  /** The configuration of its location. */
  readonly loc_conf: CArray<object>;
  /** The function that nginx calls when the client has sent something or has gone. */
  read_event_handler: object;
}

export const ffi = require("ffi") as {
  cdef(this: void, declarations: string): void;
  cast(this: void, type: "struct sluice_servers *", value: object): Servers;
  cast(this: void, type: "struct sluice_request *", value: unknown): NginxRequest;
  cast(this: void, type: "char *" | "void *", value: object): object;
  cast(this: void, type: "intptr_t *", value: object): CArray<CNumber>;
  string(this: void, text: object, length?: number): string;
  readonly C: {
    readonly sluice_cycle: Pointer<{ readonly conf: CArray<Pointer<Context>> }>;
    readonly sluice_http: Module;
    readonly sluice_http_core: Module;
    readonly sluice_http_lua: Module;
    readonly sluice_end_if_client_left: object;
    readonly sluice_ignore_client: object;
  };
};

// The first fields of nginx's ngx_module_t, ngx_command_t, ngx_cycle_t, ngx_http_conf_ctx_t, ngx_http_core_srv_conf_t, of
// ngx_http_core_main_conf_t, which is the list of servers, and of ngx_http_request_t. They are the same from nginx 1.9.11 on.
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
  struct sluice_request {
    uint32_t signature; void *connection; void **ctx; void **main_conf; void **srv_conf; void **loc_conf;
    void *read_event_handler;
  };
  extern struct sluice_cycle *sluice_cycle asm("ngx_cycle");
  extern struct sluice_module sluice_http asm("ngx_http_module");
  extern struct sluice_module sluice_http_core asm("ngx_http_core_module");
  extern struct sluice_module sluice_http_lua asm("ngx_http_lua_module");
  void sluice_end_if_client_left(void *request) asm("ngx_http_lua_rd_check_broken_connection");
  void sluice_ignore_client(void *request) asm("ngx_http_block_reading");
`);

/** The memory of the current request, while the request runs. */
export function nginxRequest(): NginxRequest {
  return ffi.cast("struct sluice_request *", requestPointer());
}

export function isNamed({ name }: Module, expected: string): boolean {
  return name !== undefined && ffi.string(name) === expected;
}

/** Returns the offset of the directive in a module's configuration. A command without a name ends the list of commands. */
export function offsetOf({ commands }: Module, directive: string): number | undefined {
  for (let i = 0; ; i++) {
    const { name, offset } = commands[i] as Command;
    const length = whole(name.len);
    if (length === 0) return undefined;
    if (ffi.string(name.data, length) === directive) return whole(offset);
  }
}

/** Returns a number in a module's configuration. */
export function numberAt(conf: object, offset: number): CNumber {
  const start = ffi.cast("char *", conf) as unknown as number;
  return ffi.cast("intptr_t *", (start + offset) as unknown as object)[0] as CNumber;
}

export function whole(value: CNumber): number {
  return tonumber(value) as number;
}
