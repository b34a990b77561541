// Follows the traffic of an app: what was, then what comes, by server-sent events.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { nowMs } from "../../api/client.ts";
import { type TrafficPoint, trafficQuery } from "../../api/queries.ts";
import { shownSeconds, type TrafficWindow, withPoints } from "./traffic-window.ts";

export interface Followed {
  readonly window: TrafficWindow;
  /** False while there is no stream: it is opened again by itself. */
  readonly isLive: boolean;
}

const nothing: TrafficWindow = new Map();
/** The browser connects again by itself, but not after an answer that is no stream. */
const againMs = 3_000;

/** @param policy absent: all of the app together */
export function useTraffic(app: string, policy?: string): Followed {
  const [since, setSince] = useState(beginning);
  const { data: former } = useQuery(trafficQuery(app, since, policy));
  const [live, setLive] = useState<{ app: string; window: TrafficWindow; isLive: boolean }>();

  useEffect(() => {
    let events: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const change = (to: (window: TrafficWindow) => TrafficWindow, isLive: boolean) =>
      setLive((old) => ({ app, isLive, window: to(old?.app === app ? old.window : nothing) }));
    const open = () => {
      const stream = new EventSource(
        `/api/v1/events?${new URLSearchParams({ app, ...(policy === undefined ? {} : { policy }) })}`,
      );
      events = stream;
      stream.addEventListener("open", () => change((window) => window, true));
      stream.addEventListener("error", () => {
        change((window) => window, false);
        if (stream.readyState === EventSource.CLOSED) timer = setTimeout(open, againMs);
      });
      stream.addEventListener("traffic", ({ data }) => {
        const point = JSON.parse(data) as TrafficPoint;
        change((window) => withPoints(window, [point]), true);
      });
      stream.addEventListener("unfinished", ({ data }) => {
        const { points } = JSON.parse(data) as { points: TrafficPoint[] };
        change((window) => withPoints(window, points), true);
      });
    };
    const close = () => {
      clearTimeout(timer);
      events?.close();
      events = undefined;
    };
    // A browser has few connections to a server, which the tabs that nobody sees leave to the others.
    const follow = () => {
      if (document.hidden) close();
      else if (events === undefined) {
        setSince(beginning());
        open();
      }
    };
    if (!document.hidden) open();
    document.addEventListener("visibilitychange", follow);
    return () => {
      document.removeEventListener("visibilitychange", follow);
      close();
    };
  }, [app, policy]);

  const own = live?.app === app ? live : undefined;
  const before = withPoints(nothing, former?.points ?? []);
  return { window: withPoints(before, [...(own?.window.values() ?? [])]), isLive: own?.isLive ?? false };
}

function beginning(): string {
  return new Date(nowMs() - shownSeconds * 1_000).toISOString();
}
