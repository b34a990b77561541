// Requests that no other call shares: all but plain checks. They obey the pause after a failure, and begin it as well.

import type { Heard } from "./batches.ts";
import { type Exchange, failed } from "./exchange.ts";
import type { Pause } from "./pause.ts";
import { errorOfOnly } from "./sluice-error.ts";

export interface LoneRequest<T> {
  readonly path: "check" | "hold";
  readonly body: string;
  /** How many checks are in it. */
  readonly checks: number;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Reads the answer; undefined: it has not the shape of one. */
  readonly read: (answer: Readonly<Record<string, unknown>>) => T | undefined;
  /** Decides if nobody answers. */
  readonly otherwise: (failure: string) => T;
}

const oddAnswer = failed("The gateway's answer has not the shape of an answer.");

/** @throws the signal's reason, if it aborts */
export async function askAlone<T>(exchange: Exchange, pause: Pause, asked: LoneRequest<T>): Promise<Heard<T>> {
  const { path, body, checks, timeoutMs, signal, read, otherwise } = asked;
  if (pause.failure !== undefined) return { decision: otherwise(pause.failure), batch: 0 };
  const reply = await exchange.post(`/sluice/v1/${path}`, body, timeoutMs, signal);
  if (reply.kind === "abandoned") throw signal?.reason;
  if (reply.kind === "error") {
    return { error: checks === 1 ? errorOfOnly(reply.error) : reply.error, batch: checks };
  }
  const decision = reply.kind === "answer" ? read(reply.body) : undefined;
  if (decision !== undefined) return { decision, batch: checks };
  const failure = reply.kind === "failure" ? reply : oddAnswer;
  if (failure.wasKept !== true) pause.begin(failure);
  return { decision: otherwise(failure.failure), batch: checks };
}
