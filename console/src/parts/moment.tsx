// A moment, as people say it ("5 minutes ago"), and exactly for who points at it.

import { useFormatter, useNow } from "use-intl";

const updateEveryMs = 10_000;

/** @param props.at a time as in RFC 3339 */
export function Moment({ at }: { at: string }) {
  const format = useFormatter();
  const now = useNow({ updateInterval: updateEveryMs });
  const date = new Date(at);
  // The time that is known here is as old as the last update: what has just happened is not in the future.
  const isFuture = date.getTime() - now.getTime() > updateEveryMs;
  return (
    <time dateTime={at} title={format.dateTime(date, { dateStyle: "medium", timeStyle: "medium" })}>
      {format.relativeTime(date, isFuture || date < now ? now : date)}
    </time>
  );
}
