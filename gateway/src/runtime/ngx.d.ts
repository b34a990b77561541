// The part of the ngx_lua API that Sluice uses. OpenResty and Debian's nginx share it.

declare interface SharedDict {
  get<Value extends string | number | boolean>(
    key: string,
  ): LuaMultiReturn<[value: Value | undefined, flags: number | undefined]>;
  set(
    key: string,
    value: string | number | boolean,
    exptimeSeconds?: number,
    flags?: number,
  ): LuaMultiReturn<[ok: boolean | undefined, error: string | undefined, forcible: boolean]>;
  /** Evicts nothing: fails if there is no memory. */
  safe_set(
    key: string,
    value: string | number | boolean,
    exptimeSeconds?: number,
    flags?: number,
  ): LuaMultiReturn<[ok: boolean | undefined, error: string | undefined, forcible: boolean]>;
  /** Evicts nothing: fails with "no memory", or with "exists". */
  safe_add(
    key: string,
    value: string | number | boolean,
    exptimeSeconds?: number,
    flags?: number,
  ): LuaMultiReturn<[ok: boolean | undefined, error: string | undefined]>;
  add(
    key: string,
    value: string | number | boolean,
    exptimeSeconds?: number,
    flags?: number,
  ): LuaMultiReturn<[ok: boolean | undefined, error: string | undefined, forcible: boolean]>;
  incr(
    key: string,
    by: number,
    init?: number,
    initTtlSeconds?: number,
  ): LuaMultiReturn<[value: number | undefined, error: string | undefined, forcible: boolean]>;
  delete(key: string): void;
  get_keys(max: number): string[];
  capacity(): number;
  free_space(): number;
  /** Marks all as expired. */
  flush_all(): void;
  /** Frees what has expired. */
  flush_expired(): number;
}

/** A cosocket client of lua-resty-redis. */
declare interface RedisConnection {
  readonly _sock: TcpSocket;
  /** The commands that commit_pipeline sends, each as a list of strings. */
  readonly _reqs: string[][] | undefined;
  /** Applies to all that follows: connecting, sending, reading. */
  set_timeout(ms: number): void;
  connect(
    host: string,
    port: number,
    options: object,
  ): LuaMultiReturn<[ok: number | undefined, error: string | undefined]>;
  get_reused_times(): LuaMultiReturn<[times: number | undefined, error: string | undefined]>;
  auth(...args: string[]): LuaMultiReturn<[reply: unknown, error: string | undefined]>;
  select(database: number): LuaMultiReturn<[reply: unknown, error: string | undefined]>;
  get(key: string): LuaMultiReturn<[reply: unknown, error: string | undefined]>;
  set(key: string, value: string, ...options: string[]): LuaMultiReturn<[reply: unknown, error: string | undefined]>;
  pexpire(key: string, ms: number): LuaMultiReturn<[reply: unknown, error: string | undefined]>;
  role(): LuaMultiReturn<[reply: unknown, error: string | undefined]>;
  asking(): LuaMultiReturn<[reply: unknown, error: string | undefined]>;
  cluster(...args: string[]): LuaMultiReturn<[reply: unknown, error: string | undefined]>;
  sentinel(...args: string[]): LuaMultiReturn<[reply: unknown, error: string | undefined]>;
  /** commit_pipeline sends the commands that are called next. */
  init_pipeline(commands: number): void;
  /** The reply is [false, error] for a command that Redis refused. */
  commit_pipeline(): LuaMultiReturn<[replies: readonly unknown[] | undefined, error: string | undefined]>;
  set_keepalive(
    maxIdleMs: number,
    poolSize: number,
  ): LuaMultiReturn<[ok: number | undefined, error: string | undefined]>;
  close(): void;
}

declare interface TcpSocket {
  connect(
    host: string,
    port: number,
    options: object,
  ): LuaMultiReturn<[ok: number | undefined, error: string | undefined]>;
  send(data: unknown): LuaMultiReturn<[bytes: number | undefined, error: string | undefined]>;
  /** Reads a line without its end, or so many bytes. After a time-out, another call can read the rest. */
  receive(
    size?: number,
  ): LuaMultiReturn<[data: string | undefined, error: string | undefined, partial: string | undefined]>;
  /** @returns a function that reads up to the pattern */
  receiveuntil(pattern: string): (this: void) => LuaMultiReturn<[text: string | undefined, error: string | undefined]>;
  settimeout(ms: number): void;
  setkeepalive(
    maxIdleMs: number,
    poolSize: number,
  ): LuaMultiReturn<[ok: number | undefined, error: string | undefined]>;
  getreusedtimes(): LuaMultiReturn<[times: number | undefined, error: string | undefined]>;
  close(): LuaMultiReturn<[ok: number | undefined, error: string | undefined]>;
  /** @param reusedSession false: reuses no session and returns none */
  sslhandshake(
    reusedSession: boolean,
    serverName: string,
    verify: boolean,
  ): LuaMultiReturn<[ok: boolean | undefined, error: string | undefined]>;
}

/** A client of lua-resty-websocket. */
declare interface WebSocketClient {
  readonly sock: TcpSocket;
  connect(uri: string, options: object): LuaMultiReturn<[ok: number | undefined, error: string | undefined]>;
  recv_frame(): LuaMultiReturn<
    [data: string | undefined, type: string | undefined, error: string | number | undefined]
  >;
  send_text(text: string): LuaMultiReturn<[bytes: number | undefined, error: string | undefined]>;
  send_pong(text: string): LuaMultiReturn<[bytes: number | undefined, error: string | undefined]>;
  send_close(code: number, message: string): LuaMultiReturn<[bytes: number | undefined, error: string | undefined]>;
  set_timeout(ms: number): void;
  close(): void;
}

declare interface RestyLock {
  lock(key: string): LuaMultiReturn<[waitedSeconds: number | undefined, error: string | undefined]>;
  unlock(): LuaMultiReturn<[ok: number | undefined, error: string | undefined]>;
}

declare interface Semaphore {
  post(count: number): void;
  wait(seconds: number): LuaMultiReturn<[ok: boolean | undefined, error: string | undefined]>;
  /** The number of available resources; if negative, how many threads wait. */
  count(): number;
}

declare interface LightThread {
  readonly __lightThread: unique symbol;
}

/** @noSelf */
declare namespace ngx {
  export const shared: Record<string, SharedDict | undefined>;
  export const header: Record<string, string | number | readonly string[] | undefined>;
  export const ctx: Record<string, unknown>;
  const variables: Record<string, string | undefined>;

  export { variables as var };
  export let status: number;
  export const DEBUG: number;
  export const INFO: number;
  export const NOTICE: number;
  export const WARN: number;
  export const ERR: number;
  export const HTTP_OK: number;
  export const DECLINED: number;
  /** Whether the current request is part of another one. */
  export const is_subrequest: boolean;

  export function now(): number;
  /** Refreshes the cached time. */
  export function update_time(): void;
  export function log(level: number, ...parts: (string | number | boolean | undefined)[]): void;
  export function exit(status: number): never;
  export function exec(target: string): never;
  export function print(...parts: (string | number | readonly string[][])[]): void;
  export function send_headers(): void;
  export function sleep(seconds: number): void;
  export function sha1_bin(text: string): string;
  /** Returns 20 bytes. */
  export function hmac_sha1(key: string, text: string): string;
  export function encode_base64(text: string): string;
  export function escape_uri(text: string): string;
  export function unescape_uri(text: string): string;
  export function decode_base64(text: string): string | undefined;
  export function md5(text: string): string;
  /** Returns an integer from 0 to 2^32 - 1. */
  export function crc32_short(text: string): number;
  export function get_phase(): string;

  export namespace config {
    const ngx_lua_version: number;
    const nginx_version: number;
    export function prefix(): string;
  }
  export namespace worker {
    export function id(): number | undefined;
    export function pid(): number;
    export function count(): number;
    export function exiting(): boolean;
  }
  export namespace req {
    export function get_method(): string;
    /** 0.9, 1.0, 1.1 or 2.0. Undefined: a version that this ngx_lua does not know. */
    export function http_version(): number | undefined;
    /** When the request began. It is the same in all its phases, through internal redirects too. */
    export function start_time(): number;
    /** Returns whether nginx redirected the request here from another location. */
    export function is_internal(): boolean;
    export function set_header(name: string, value: string): void;
    export function clear_header(name: string): void;
    export function read_body(): void;
    /** Undefined: there is no body, or it is in a file because it is larger than client_body_buffer_size. */
    export function get_body_data(): string | undefined;
    export function get_body_file(): string | undefined;
    /** A parameter that occurs more than once is a list; one without a value is true. */
    export function get_uri_args(
      max: number,
    ): LuaMultiReturn<[args: Record<string, string | true | (string | true)[]>, error: string | undefined]>;
  }
  export namespace re {
    export function find(
      text: string,
      pattern: string,
      options: string,
    ): LuaMultiReturn<[from: number | undefined, to: number | undefined, error: string | undefined]>;
  }
  export namespace timer {
    export type Callback = (this: void, premature: boolean) => void;
    export function at(
      seconds: number,
      callback: Callback,
    ): LuaMultiReturn<[ok: number | undefined, error: string | undefined]>;
    export function every(
      seconds: number,
      callback: Callback,
    ): LuaMultiReturn<[ok: number | undefined, error: string | undefined]>;
  }
  export namespace thread {
    export function spawn<Arguments extends unknown[]>(
      body: (this: void, ...args: Arguments) => void,
      ...args: Arguments
    ): LightThread;
    export function kill(thread: LightThread): void;
    export function wait(thread: LightThread): LuaMultiReturn<[ok: boolean, ...results: unknown[]]>;
  }
}
