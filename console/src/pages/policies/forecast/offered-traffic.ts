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

/** @param recorded the real traffic of the last hour, for the shape of this name @param nowMs since 1970 */
export function offerOf(chosen: Chosen, document: Json, recorded: readonly RecordedMinute[], nowMs: number): Offer {
  const durationSeconds = chosen.kind === "recorded" ? 3_600 : chosen.durationSeconds;
  const startMs = Math.floor(nowMs / 60_000) * 60_000 - (chosen.kind === "recorded" ? 3_600_000 : 0);
  return {
    shape: shapeOf({ ...chosen, durationSeconds }, recorded, startMs),
    startUs: startMs * 1_000,
    durationSeconds,
    // Counted minutes keep their counts.
    arrivals: chosen.kind === "recorded" ? "even" : "random",
    seed: 1,
    keys: clientsOf(document["key"], Math.max(1, Math.min(mostClients, Math.floor(chosen.clients) || 1))),
  };
}

function shapeOf(
  { kind, perSecond: asked, durationSeconds, drawn }: Chosen,
  recorded: readonly RecordedMinute[],
  startMs: number,
): Shape {
  const perSecond = Math.min(asked, mostPlayed / durationSeconds);
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
    case "recorded": {
      const all = recorded.reduce((sum, { requests }) => sum + requests, 0);
      const part = Math.min(1, mostPlayed / Math.max(1, all));
      const points = recorded
        .map(({ at, requests }) => ({
          seconds: (Date.parse(at) - startMs) / 1_000,
          requests: Math.round(requests * part),
        }))
        .filter(({ seconds }) => seconds >= 0 && seconds < durationSeconds);
      return { kind, points, stepSeconds: 60 };
    }
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
