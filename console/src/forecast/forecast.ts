// Asks the worker for a forecast. The newest request wins: one that is still being computed is given up, and its worker with it, since a
// worker cannot be told anything while it computes.

import type { ForecastRequest, ForecastResult } from "./request.ts";

export type { ForecastRequest, ForecastResult } from "./request.ts";

interface Asked {
  readonly id: number;
  readonly resolve: (result: ForecastResult) => void;
  readonly reject: (error: unknown) => void;
}

type Reply = { readonly id: number; readonly result?: ForecastResult; readonly failure?: string };

let worker: Worker | undefined;
let asked: Asked | undefined;
let lastId = 0;

/**
 * @param signal gives the request up
 * @throws DOMException with the name AbortError if it was given up, or if a newer request came
 */
export async function forecast(request: ForecastRequest, signal?: AbortSignal): Promise<ForecastResult> {
  signal?.throwIfAborted();
  giveUp(new DOMException("A newer forecast was asked for.", "AbortError"));
  worker ??= startWorker();
  lastId += 1;
  const id = lastId;
  const used = worker;
  return new Promise<ForecastResult>((resolve, reject) => {
    const onAbort = () => {
      if (asked?.id === id) giveUp(signal?.reason);
    };
    const settled = () => signal?.removeEventListener("abort", onAbort);
    asked = {
      id,
      resolve: (result) => {
        settled();
        resolve(result);
      },
      reject: (error) => {
        settled();
        reject(error);
      },
    };
    signal?.addEventListener("abort", onAbort);
    used.postMessage({ id, request });
  });
}

function startWorker(): Worker {
  const started = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  started.onmessage = ({ data: { id, result, failure } }: MessageEvent<Reply>) => {
    if (asked?.id !== id) return;
    const { resolve, reject } = asked;
    asked = undefined;
    if (result === undefined) reject(new Error(failure));
    else resolve(result);
  };
  started.onerror = () => giveUp(new Error("The forecast's worker could not be started."));
  return started;
}

function giveUp(reason: unknown): void {
  if (asked === undefined) return;
  worker?.terminate();
  worker = undefined;
  const { reject } = asked;
  asked = undefined;
  reject(reason);
}
