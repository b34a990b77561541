// A socket whose reads time out by the patience clock. nginx times a read by its own cached clock: a worker that was late itself
// would give up on a reply that Redis sent in time, and lua-resty-redis would then close the connection.

import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import { askedNow, countReading, isGivenUp, keepTicking, type Patience, pauseMs } from "./patience.ts";

/** Replaces the socket within a connection of lua-resty-redis. */
export interface PatientSocket extends TcpSocket {
  readonly socket: TcpSocket;
  readonly patience: Patience;
}

type Received = LuaMultiReturn<[data: string | undefined, error: string | undefined, partial: string | undefined]>;

const methods = {
  send(this: PatientSocket, data: unknown): LuaMultiReturn<[number | undefined, string | undefined]> {
    askedNow(this.patience);
    this.socket.settimeout(pauseMs(this.patience));
    return this.socket.send(data);
  },
  receive(this: PatientSocket, size?: number): Received {
    countReading(1);
    const [data, failure, partial] = size === undefined ? this.socket.receive() : this.socket.receive(size);
    countReading(-1);
    if (failure !== "timeout") return $multi(data, failure, partial);
    return receiveOn(this, size, partial ?? "");
  },
  settimeout(this: PatientSocket, ms: number): void {
    this.socket.settimeout(ms);
  },
  connect(this: PatientSocket, host: string, port: number, options: object) {
    return this.socket.connect(host, port, options);
  },
  sslhandshake(this: PatientSocket, reusedSession: boolean, serverName: string, verify: boolean) {
    return this.socket.sslhandshake(reusedSession, serverName, verify);
  },
  getreusedtimes(this: PatientSocket) {
    return this.socket.getreusedtimes();
  },
  setkeepalive(this: PatientSocket, maxIdleMs: number, poolSize: number) {
    return this.socket.setkeepalive(maxIdleMs, poolSize);
  },
  close(this: PatientSocket) {
    return this.socket.close();
  },
};
const metatable = { __index: methods };

/** From now on, reads of this connection time out by the patience clock. */
export function readPatiently(redis: RedisConnection, patience: Patience): void {
  const socket = rawget(redis, "_sock");
  // If lua-resty-redis hides its socket, reads time out by nginx's clock.
  if (socket === undefined) return;
  rawset(redis, "_sock", setmetatable({ socket, patience } as PatientSocket, metatable));
}

/** Continues a read that timed out by nginx's clock: keeps what has arrived and waits for the rest. */
function receiveOn({ socket, patience }: PatientSocket, size: number | undefined, before: string): Received {
  const startedAtSeconds = stopwatchSeconds();
  let got = before;
  for (;;) {
    // A reply that is already in the socket is read before the call gives up.
    const isLast = isGivenUp(patience, stopwatchSeconds() - startedAtSeconds);
    socket.settimeout(isLast ? 1 : pauseMs(patience));
    keepTicking(patience.silenceSeconds);
    countReading(1);
    const [data, failure, partial] = size === undefined ? socket.receive() : socket.receive(size - got.length);
    countReading(-1);
    if (data !== undefined) return $multi(got + data, undefined, undefined);
    got += partial ?? "";
    if (failure !== "timeout" || isLast) return $multi(undefined, failure, got);
  }
}
