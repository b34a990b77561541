// Has nginx end a request whose client leaves while the request waits here. `lua_check_client_abort on` would do that for as long as the
// request lives: also while a service works on it that `proxy_ignore_client_abort on` lets finish. So a request that waits asks nginx
// itself, in the way that ngx_lua does.

import { ffi, nginxRequest } from "./nginx-memory.ts";

interface Handlers {
  /** It ends the request if the client has left. */
  readonly ending: object;
  /** What ngx_lua has nginx do otherwise. */
  readonly ignoring: object;
}

/** Undefined: this nginx does not export them, and a client that has left is noticed when its request goes on. */
const handlers = findHandlers();

/** From now on, nginx ends the current request when its client leaves. @returns false: it does so anyway, or cannot */
export function watchClient(): boolean {
  if (handlers === undefined) return false;
  const request = nginxRequest();
  if (request.read_event_handler !== handlers.ignoring) return false;
  request.read_event_handler = handlers.ending;
  return true;
}

/** For the request that was watched, when it goes on. */
export function unwatchClient(): void {
  const request = nginxRequest();
  const { ending, ignoring } = handlers as Handlers;
  if (request.read_event_handler === ending) request.read_event_handler = ignoring;
}

function findHandlers(): Handlers | undefined {
  const [found, both] = pcall(addresses);
  return found ? (both as Handlers) : undefined;
}

function addresses(): Handlers {
  return {
    ending: ffi.cast("void *", ffi.C.sluice_end_if_client_left),
    ignoring: ffi.cast("void *", ffi.C.sluice_ignore_client),
  };
}
