// The traffic that a forecast plays: what somebody chose, as the limiter's simulation needs it, and what to begin with for a policy.

import { parseDuration } from "@sluice/limiter/document/duration.ts";
import { parseKeyPart } from "@sluice/limiter/key/key-part.ts";
import type { Offer, Shape } from "../../../forecast/shapes.ts";
import type { TrafficKey } from "../../../forecast/traffic.ts";
import { type Json, valueAt } from "../editor/draft.ts";

export const shapeKinds = ["steady", "burst", "ramp", "two-peaks", "drawn", "recorded"] as const;
export type ShapeKind = (typeof shapeKinds)[number];

/** Heights that one draws, evenly over the time: parts of the highest rate, from 0 to 100. */
export const drawnHeights = 8;

export interface Chosen {
  readonly kind: ShapeKind;
  /** Requests per second; of shapes that change, at their highest. */
  readonly perSecond: number;
  readonly durationSeconds: number;
  readonly clients: number;
  readonly drawn: readonly number[];
}

export interface RecordedMinute {
  readonly at: string;
  readonly requests: number;
}

export const durations = [10, 60, 600, 3_600, 86_400] as const;
const mostClients = 1_000;
/** So many take the simulation less than 200 ms. */
const mostPlayed = 100_000;
/** Fewer would show nothing. */
const leastPlayed = 60;
const microsecondsPerSecond = 1_000_000;
const minuteSeconds = 60;

/** @returns twice what the first limit admits, for at least one of its windows: so one sees it refuse */
export function suggestedFor(document: Json): Chosen {
  const quota = valueAt(document, ["limits", 0, "quota"]);
  const window = valueAt(document, ["limits", 0, "window"]);
  const windowSeconds =
    (parseDuration(typeof window === "string" ? window : "1s") ?? microsecondsPerSecond) / microsecondsPerSecond;
  const durationSeconds = durations.find((seconds) => seconds >= windowSeconds) ?? 86_400;
  const wanted = (2 * (typeof quota === "number" ? quota : 10)) / Math.max(windowSeconds, 0.001);
  const perSecond = Math.max(leastPlayed / durationSeconds, Math.min(wanted, mostPlayed / durationSeconds / 2));
  return {
    kind: "two-peaks",
    perSecond: perSecond < 1 ? Math.ceil(perSecond * 60) / 60 : Math.ceil(perSecond),
    durationSeconds,
    clients: 1,
    drawn: [10, 30, 80, 100, 60, 20, 50, 10],
  };
}

/**
 * Rates are played as they are: what would be more than 100,000 requests is played for a shorter time, of recorded traffic its busiest.
 *
 * @param recorded the real traffic of the last hour, for the shape of this name
 * @param nowMs since 1970
 */
export function offerOf(chosen: Chosen, document: Json, recorded: readonly RecordedMinute[], nowMs: number): Offer {
  const { shape, startMs, durationSeconds } =
    chosen.kind === "recorded" ? busiestOf(recorded) : shapeOf(chosen, chosen.kind, nowMs);
  return {
    shape,
    startUs: startMs * 1_000,
    durationSeconds,
    // Counted minutes keep their counts.
    arrivals: chosen.kind === "recorded" ? "even" : "random",
    seed: 1,
    keys: clientsOf(document["key"], Math.max(1, Math.min(mostClients, Math.floor(chosen.clients) || 1))),
  };
}

/** @returns how long the traffic that was asked for would last, in seconds */
export function askedSeconds({ kind, durationSeconds }: Chosen, recorded: readonly RecordedMinute[]): number {
  if (kind !== "recorded") return durationSeconds;
  const [first = 0, last = 0] = [recorded[0], recorded.at(-1)].map((minute) => Date.parse(minute?.at ?? "") || 0);
  return recorded.length === 0 ? 0 : (last - first) / 1_000 + minuteSeconds;
}

interface Stretch {
  readonly shape: Shape;
  readonly startMs: number;
  readonly durationSeconds: number;
}

/** @returns the minutes that follow each other with the most requests of those that have few enough to be played, or a part of one */
function busiestOf(recorded: readonly RecordedMinute[]): Stretch {
  let best = { from: 0, to: 0, requests: -1 };
  let from = 0;
  let requests = 0;
  for (const [i, minute] of recorded.entries()) {
    requests += minute.requests;
    while (requests > mostPlayed && from <= i) {
      requests -= recorded[from]?.requests ?? 0;
      from += 1;
    }
    const isShorter = requests === best.requests && i + 1 - from < best.to - best.from;
    if (from <= i && (requests > best.requests || isShorter)) best = { from, to: i + 1, requests };
  }
  const most = recorded.reduce((sum, one) => (one.requests > sum.requests ? one : sum), { at: "", requests: 0 });
  const isPart = most.requests > mostPlayed;
  const played = isPart ? [{ ...most, requests: mostPlayed }] : recorded.slice(best.from, best.to);
  const stepSeconds = isPart ? (minuteSeconds * mostPlayed) / most.requests : minuteSeconds;
  const startMs = Date.parse(played[0]?.at ?? "") || 0;
  const points = played.map((one) => ({ seconds: (Date.parse(one.at) - startMs) / 1_000, requests: one.requests }));
  return {
    shape: { kind: "recorded", points, stepSeconds },
    startMs,
    durationSeconds: (points.at(-1)?.seconds ?? 0) + stepSeconds,
  };
}

function shapeOf(chosen: Chosen, kind: Exclude<ShapeKind, "recorded">, nowMs: number): Stretch {
  const durationSeconds = Math.min(chosen.durationSeconds, mostPlayed / Math.max(chosen.perSecond, 0.001));
  const startMs = Math.floor(nowMs / 60_000) * 60_000;
  return { shape: drawnShape({ ...chosen, durationSeconds }, kind), startMs, durationSeconds };
}

function drawnShape({ perSecond, durationSeconds, drawn }: Chosen, kind: Exclude<ShapeKind, "recorded">): Shape {
  switch (kind) {
    case "steady":
      return { kind, perSecond };
    case "burst": {
      const lastsSeconds = durationSeconds / 20;
      const requests = Math.round(perSecond * lastsSeconds);
      return { kind, perSecond: perSecond / 10, requests, atSeconds: durationSeconds / 3, lastsSeconds };
    }
    case "ramp":
      return { kind, fromPerSecond: 0, toPerSecond: perSecond };
    case "two-peaks":
      return { kind, perSecond: perSecond / 5, peakPerSecond: perSecond };
    case "drawn":
      return {
        kind,
        points: drawn.map((height, i) => ({
          seconds: (i * durationSeconds) / (drawn.length - 1),
          perSecond: (perSecond * height) / 100,
        })),
      };
  }
}

/** @returns so many clients that each have values of their own for the parts of the key, and send equally much */
function clientsOf(key: unknown, count: number): Offer["keys"] {
  const parts = Array.isArray(key) ? key.map((part) => parseKeyPart(String(part))) : [];
  return Array.from({ length: count }, (_, i) => {
    const values = parts.map((part) => {
      if (part?.source === "ip") return `198.51.${100 + (i >> 8)}.${i & 255}`;
      return part?.source === "const" ? part.name : `client-${i + 1}`;
    });
    return { key: { values } satisfies TrafficKey, share: 1 };
  });
}
