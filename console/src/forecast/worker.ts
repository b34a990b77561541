// The worker: it computes one forecast for each message, so that the page stays quick while somebody types.

import { type ForecastRequest, forecastOf } from "./request.ts";

/** What a page's own window and a worker share of their global scope. */
const scope = globalThis as unknown as {
  onmessage: ((event: MessageEvent<{ readonly id: number; readonly request: ForecastRequest }>) => void) | null;
  postMessage(message: unknown): void;
};

scope.onmessage = ({ data: { id, request } }) => {
  try {
    scope.postMessage({ id, result: forecastOf(request) });
  } catch (error) {
    scope.postMessage({ id, failure: error instanceof Error ? error.message : String(error) });
  }
};
