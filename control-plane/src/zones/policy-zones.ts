// The time zones in a policy's document: of its schedule, and of windows of the calendar, wherever there are limits.

import type { ZoneTransition } from "@sluice/limiter/document/schedule.ts";
import { knownZone } from "./zone-transitions.ts";

export interface PolicyZone {
  readonly name: string;
  readonly transitions: readonly ZoneTransition[];
}

/**
 * Gives zones their canonical names, however they are spelt: so a state never has more zones than exist. Names are part of counters' keys,
 * so whoever looks for counters uses this, too.
 *
 * @param document in JSON
 */
export function withZones(
  document: string,
  nowSeconds: number,
): { readonly sent: string; readonly zones: readonly PolicyZone[] } {
  // Few policies name a zone: the others need not be parsed.
  if (!document.includes('"timezone"')) return { sent: document, zones: [] };
  const zones = new Map<string, PolicyZone>();
  const sent = JSON.parse(document, (field, value) => {
    const zone = isTimezoneField(field, value) ? knownZone(value, nowSeconds) : undefined;
    if (zone !== undefined) zones.set(zone.name, zone);
    return zone?.name ?? value;
  });
  return { sent: JSON.stringify(sent), zones: [...zones.values()] };
}

/** The same for documents whose zones come with other ones: limits that consumers have of their own. */
export function canonicalZones(document: string): string {
  return withZones(document, Math.floor(Date.now() / 1000)).sent;
}

/** Nothing else in a policy has such a field with a text. */
function isTimezoneField(field: string, value: unknown): value is string {
  return field === "timezone" && typeof value === "string";
}
