// Debian packages the lua-resty libraries as nginx.*, OpenResty ships them as resty.*. This module loads whichever exists.

/** Returns the first of these modules that can be loaded, or undefined. */
function firstOf<Module>(...names: string[]): Module | undefined {
  for (const name of names) {
    const [loaded, module] = pcall(require, name);
    if (loaded) return module as Module;
  }
  return undefined;
}

function demand<Module>(what: string, ...names: string[]): Module {
  const module = firstOf<Module>(...names);
  if (module === undefined) {
    error(`sluice: no Lua module ${names.join(" or ")} found on lua_package_path: ${what} needs it`, 0);
  }
  return module;
}

const { type: processType } = demand<{ type(this: void): string }>("detecting worker processes", "ngx.process");

/** Returns whether this process serves requests. nginx does not read its configuration in such a process. */
export function isWorker(): boolean {
  return processType() === "worker";
}

interface Cjson {
  decode<Value>(this: void, text: string): LuaMultiReturn<[value: Value | undefined, error: string | undefined]>;
  encode(this: void, value: unknown): string;
  /** Returns an instance with settings of its own. */
  "new"(this: void): Cjson;
  decode_invalid_numbers(this: void, allowed: boolean): void;
  decode_max_depth(this: void, depth: number): void;
}

export const cjson = demand<Cjson>("reading snapshots", "cjson.safe");

/** For untrusted text: rejects NaN, Infinity, hexadecimal numbers, and values nested deeper than `depth`. */
export function strictJson(depth: number): Cjson {
  const strict = cjson.new();
  strict.decode_invalid_numbers(false);
  strict.decode_max_depth(depth);
  return strict;
}

interface Sha256 {
  update(text: string): boolean;
  final(): string;
}

export const sha256Library = demand<{ "new"(): Sha256 }>("hashing caller tokens", "resty.sha256", "nginx.sha256");

export const redisLibrary = firstOf<{ new (): RedisConnection; "new"(): RedisConnection }>(
  "resty.redis",
  "nginx.redis",
);

export const webSocketLibrary = firstOf<{
  "new"(options: object): LuaMultiReturn<[WebSocketClient | undefined, string?]>;
}>("resty.websocket.client", "nginx.websocket.client");

export const lockLibrary = firstOf<{
  "new"(dictName: string, options: object): LuaMultiReturn<[RestyLock | undefined, string?]>;
}>("resty.lock");

export const resty = demand<{
  get_request(this: void): unknown;
  /** Puts a value into a free slot of a table. @returns the slot */
  ref_in_table(this: void, table: LuaTable<number, object>, value: object): number;
}>("identifying requests", "resty.core.base");

/** The current request, in the form that nginx's own functions take. */
export const requestPointer = resty.get_request;

const { cast } = require("ffi") as { cast(this: void, type: "uintptr_t", pointer: unknown): object };

/** Identifies the current request in this worker, from its first phase to its last. */
export function requestAddress(): number {
  return tonumber(cast("uintptr_t", requestPointer())) as number;
}

/** Like a write to `ngx.header`, but does not look for a header of the same name to replace. */
export const { add_header: addHeader } = demand<{ add_header(this: void, name: string, value: string): void }>(
  "sending rate limit headers",
  "ngx.resp",
);

export const semaphoreLibrary = demand<{ "new"(this: void, resources: number): Semaphore }>(
  "the push socket",
  "ngx.semaphore",
);
