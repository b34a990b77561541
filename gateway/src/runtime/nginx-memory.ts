// What nginx has parsed from its configuration, and what it keeps of a request, as far as Lua cannot ask for it.
//
// The table of nginx's core module says where a directive's value is. Such tables are part of the interface that modules are built
// against. The name of the module is compared before anything else in it is trusted.

import { requestPointer } from "./lua-modules.ts";

type CArray<Of> = Readonly<Record<number, Of>>;
/** A number of C. */
type CNumber = object;

interface Module {
  readonly ctx_index: CNumber;
  /** A null pointer is equal to nil. */
  readonly name: object | undefined;
  readonly commands: CArray<{
    readonly name: { readonly len: CNumber; readonly data: object };
    readonly offset: CNumber;
  }>;
}

/** What nginx keeps of a request. */
interface NginxRequest {
  /** The configuration of its location, by module. These are pointers to bytes, to which one adds as to numbers. */
  readonly loc_conf: CArray<number>;
  /** The function that nginx calls when the client has sent something or has gone. */
  read_event_handler: object;
}

export const ffi = require("ffi") as {
  cdef(this: void, declarations: string): void;
  cast(this: void, type: "struct sluice_request *", value: unknown): NginxRequest;
  cast(this: void, type: "void *", value: object): object;
  cast(this: void, type: "intptr_t *", address: number): CArray<CNumber>;
  string(this: void, text: object, length?: number): string;
  readonly C: {
    readonly sluice_http_core: Module;
    readonly sluice_end_if_client_left: object;
    readonly sluice_ignore_client: object;
  };
};

const { cast } = ffi;

// The first fields of nginx's ngx_module_t, ngx_command_t and ngx_http_request_t. They are the same from nginx 1.9.11 on.
ffi.cdef(`
  struct sluice_text { size_t len; const char *data; };
  struct sluice_command {
    struct sluice_text name; uintptr_t type; void *set; uintptr_t conf; uintptr_t offset; void *post;
  };
  struct sluice_module {
    uintptr_t ctx_index; uintptr_t index; const char *name; uintptr_t spare[2]; uintptr_t version; const char *signature;
    void *ctx; struct sluice_command *commands;
  };
  struct sluice_request {
    uint32_t signature; void *connection; void **ctx; void **main_conf; void **srv_conf; char **loc_conf;
    void *read_event_handler;
  };
  extern struct sluice_module sluice_http_core asm("ngx_http_core_module");
  void sluice_end_if_client_left(void *request) asm("ngx_http_lua_rd_check_broken_connection");
  void sluice_ignore_client(void *request) asm("ngx_http_block_reading");
`);

/** Where the value of a directive of nginx's core is in the configuration of a location. */
export interface Place {
  readonly index: number;
  readonly offset: number;
}

/** Undefined if this nginx does not tell. */
export function placeOf(directive: string): Place | undefined {
  const [looked, place] = pcall(findPlace, directive);
  return looked ? (place as Place | undefined) : undefined;
}

/** Returns the number that the directive has where the current request is. @param index of its place @param offset of its place */
export function numberAt(index: number, offset: number): number {
  return whole(cast("intptr_t *", (nginxRequest().loc_conf[index] as number) + offset)[0] as CNumber);
}

/** The memory of the current request, while the request runs. */
export function nginxRequest(): NginxRequest {
  return cast("struct sluice_request *", requestPointer());
}

function findPlace(this: void, directive: string): Place | undefined {
  const { name, commands, ctx_index } = ffi.C.sluice_http_core;
  if (name === undefined || ffi.string(name) !== "ngx_http_core_module") return undefined;
  // A command without a name ends the list.
  for (let i = 0; ; i++) {
    const command = commands[i] as (typeof commands)[number];
    const length = whole(command.name.len);
    if (length === 0) return undefined;
    if (ffi.string(command.name.data, length) === directive) {
      return { index: whole(ctx_index), offset: whole(command.offset) };
    }
  }
}

function whole(value: CNumber): number {
  return tonumber(value) as number;
}
