// A moment, as people say it ("5 minutes ago"), and exactly for who points at it.

import { useFormatter, useNow } from "use-intl";

const updateEveryMs = 10_000;

/** @param props.at a time as in RFC 3339 */
export function Moment({ at }: { at: string }) {
  const format = useFormatter();
  const now = useNow({ updateInterval: updateEveryMs });
  const date = new Date(at);
  return (
    <time dateTime={at} title={format.dateTime(date, { dateStyle: "medium", timeStyle: "medium" })}>
      {format.relativeTime(date, now)}
    </time>
  );
}
