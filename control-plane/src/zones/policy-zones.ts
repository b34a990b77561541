// The time zones in a policy's document: of its schedule, and of windows of the calendar, wherever there are limits.

import type { ZoneTransition } from "@sluice/limiter/document/schedule.ts";
import { knownZone, zoneName } from "./zone-transitions.ts";

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
  const zones = new Map<string, PolicyZone>();
  const sent = withNames(document, (timezone) => {
    const zone = knownZone(timezone, nowSeconds);
    if (zone !== undefined) zones.set(zone.name, zone);
    return zone?.name;
  });
  return { sent, zones: [...zones.values()] };
}

/** The same for documents whose zones come with other ones: limits that consumers have of their own. */
export function canonicalZones(document: string): string {
  return withZoneNames(document).sent;
}

/** The same, and the canonical names. */
export function withZoneNames(document: string): { readonly sent: string; readonly names: ReadonlySet<string> } {
  const names = new Set<string>();
  const sent = withNames(document, (timezone) => {
    const name = zoneName(timezone);
    if (name !== undefined) names.add(name);
    return name;
  });
  return { sent, names };
}

/** @param nameOf undefined: there is no such zone, and its name stays */
function withNames(document: string, nameOf: (timezone: string) => string | undefined): string {
  // Few documents name a zone: the others need not be parsed.
  if (!document.includes('"timezone"')) return document;
  return JSON.stringify(
    JSON.parse(document, (field, value) => (isTimezoneField(field, value) ? (nameOf(value) ?? value) : value)),
  );
}

/** Nothing else in a policy has such a field with a text. */
function isTimezoneField(field: string, value: unknown): value is string {
  return field === "timezone" && typeof value === "string";
}
