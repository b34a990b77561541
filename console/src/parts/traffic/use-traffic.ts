// Follows the traffic of an app: what was, then what comes, by server-sent events.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { type TrafficPoint, trafficQuery } from "../../api/queries.ts";
import { shownSeconds, type TrafficWindow, withPoints } from "./traffic-window.ts";

export interface Followed {
  readonly window: TrafficWindow;
  /** False while the stream is broken: the browser connects it again by itself. */
  readonly isLive: boolean;
}

const nothing: TrafficWindow = new Map();

/** @param policy absent: all of the app together */
export function useTraffic(app: string, policy?: string): Followed {
  const [since] = useState(() => new Date(Date.now() - shownSeconds * 1_000).toISOString());
  const { data: former } = useQuery(trafficQuery(app, since, policy));
  const [live, setLive] = useState<{ app: string; window: TrafficWindow; isLive: boolean }>();

  useEffect(() => {
    const events = new EventSource(
      `/api/v1/events?${new URLSearchParams({ app, ...(policy === undefined ? {} : { policy }) })}`,
    );
    const change = (to: (window: TrafficWindow) => TrafficWindow, isLive: boolean) =>
      setLive((old) => ({ app, isLive, window: to(old?.app === app ? old.window : nothing) }));
    events.addEventListener("open", () => change((window) => window, true));
    events.addEventListener("error", () => change((window) => window, false));
    events.addEventListener("traffic", ({ data }) => {
      const point = JSON.parse(data) as TrafficPoint;
      change((window) => withPoints(window, [point]), true);
    });
    events.addEventListener("unfinished", ({ data }) => {
      const { points } = JSON.parse(data) as { points: TrafficPoint[] };
      change((window) => withPoints(window, points), true);
    });
    return () => events.close();
  }, [app, policy]);

  const own = live?.app === app ? live : undefined;
  const before = withPoints(nothing, former?.points ?? []);
  return { window: withPoints(before, [...(own?.window.values() ?? [])]), isLive: own?.isLive ?? false };
}
