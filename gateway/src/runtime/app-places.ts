// Places of a kind of which a worker has a bounded number, such as those of requests that wait. An eighth more than that is for apps that
// have less than an equal share, so that no app takes the places of all others.

import { emptyTable } from "../../../limiter/src/basics/table.ts";

const more = 1 / 8;

export interface AppPlaces {
  taken: number;
  /** How many apps have any. */
  apps: number;
  readonly ofApps: Record<string, number | undefined>;
}

export function newPlaces(): AppPlaces {
  return { taken: 0, apps: 0, ofApps: emptyTable() };
}

/** Returns whether there is a place for one more of this app. @param most that are for all apps */
export function hasPlace({ taken, apps, ofApps }: AppPlaces, app: string, most: number): boolean {
  if (taken < most) return true;
  const own = ofApps[app] ?? 0;
  return taken < most * (1 + more) && own < most / math.max(own === 0 ? apps + 1 : apps, 2);
}

/** @param size how many places it takes */
export function takePlace(places: AppPlaces, app: string, size = 1): void {
  const own = places.ofApps[app];
  if (own === undefined) places.apps += 1;
  places.ofApps[app] = (own ?? 0) + size;
  places.taken += size;
}

export function leavePlace(places: AppPlaces, app: string, size = 1): void {
  const own = (places.ofApps[app] ?? 0) - size;
  if (own <= 0) places.apps -= 1;
  places.ofApps[app] = own > 0 ? own : undefined;
  places.taken -= size;
}
