// What the control plane tells about its work, if traces are configured. Nothing here loads OpenTelemetry.

import type { IncomingHttpHeaders } from "node:http";
import type { Pushed } from "../push/push-durations.ts";
import type { StorageListener } from "../storage/engines/storage-observer.ts";

export interface AnsweredRequest {
  readonly method: string;
  /** The pattern of the route. */
  readonly route: string;
  readonly status: number;
  readonly id: string;
  readonly who: string | undefined;
}

/** The span of a request. */
export interface RequestSpan {
  /** Runs what belongs to the request. */
  run(body: () => void): void;
  end(request: AnsweredRequest): void;
}

export interface Tracing {
  readonly storage: StorageListener;
  /** Begins the span of a request, as a part of the trace that its `traceparent` names. */
  request(headers: IncomingHttpHeaders): RequestSpan;
  /** Returns what runs now, as the origin of a push. */
  current(): unknown;
  pushed(pushed: Pushed<unknown>): void;
  /** Sends what was not sent yet, for a limited time. */
  stop(): Promise<void>;
}
