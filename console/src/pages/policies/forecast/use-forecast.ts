// Keeps a forecast up to date while somebody changes the policy or the traffic.

import { useEffect, useState } from "react";
import { type ForecastRequest, type ForecastResult, forecast } from "../../../forecast/forecast.ts";

/** While one types, a forecast would be outdated before it is read. */
const restMs = 120;

export interface Forecasted {
  readonly request: ForecastRequest;
  readonly result: ForecastResult;
  /** How long the worker took. */
  readonly tookMs: number;
}

/** @returns the newest forecast; of the request before while the present one is computed */
export function useForecast(request: ForecastRequest | undefined): Forecasted | undefined {
  const [shown, setShown] = useState<Forecasted>();
  useEffect(() => {
    if (request === undefined) return;
    const given = new AbortController();
    const timer = setTimeout(() => {
      const began = performance.now();
      forecast(request, given.signal).then(
        (result) => setShown({ request, result, tookMs: performance.now() - began }),
        // A newer one is on its way, or the page is left.
        () => undefined,
      );
    }, restMs);
    return () => {
      clearTimeout(timer);
      given.abort();
    };
  }, [request]);
  return shown;
}
