// Keeps a forecast up to date while somebody changes the policy or the traffic.

import { useEffect, useState } from "react";
import { type ForecastRequest, type ForecastResult, forecast } from "../../../forecast/forecast.ts";

/** While one types, a forecast would be outdated before it is read. */
const restMs = 120;
/** Whoever waits longer than this wants to choose less traffic. */
const mostMs = 10_000;

export interface Forecasted {
  readonly request: ForecastRequest;
  readonly result: ForecastResult;
  /** How long the worker took. */
  readonly tookMs: number;
}

export interface ForecastState {
  /** The newest forecast; of the request before while the present one is computed. */
  readonly forecasted: Forecasted | undefined;
  /** Whether the present one could not be computed, or not in time. */
  readonly hasFailed: boolean;
}

export function useForecast(request: ForecastRequest | undefined): ForecastState {
  const [forecasted, setForecasted] = useState<Forecasted>();
  const [failed, setFailed] = useState<ForecastRequest>();
  useEffect(() => {
    if (request === undefined) return;
    const given = new AbortController();
    const timer = setTimeout(() => {
      const began = performance.now();
      forecast(request, AbortSignal.any([given.signal, AbortSignal.timeout(mostMs)])).then(
        (result) => setForecasted({ request, result, tookMs: performance.now() - began }),
        // Otherwise a newer one is on its way, or the page is left.
        () => given.signal.aborted || setFailed(request),
      );
    }, restMs);
    return () => {
      clearTimeout(timer);
      given.abort();
    };
  }, [request]);
  return { forecasted, hasFailed: request !== undefined && failed === request };
}
