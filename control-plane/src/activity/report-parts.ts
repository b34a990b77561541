// Cuts what gateways reported into parts: rows that other control planes read in the database, and what one takes over without a pause.

import type { ActivityReport } from "./activity.ts";

type Line = ActivityReport["traffic"][number] | ActivityReport["keys"][number];

/** Databases refuse rows that are larger than a megabyte. A line is never larger than a message of a gateway. */
const rowBytes = 400_000;
/** As much as a message of a gateway may have. */
const mostAtOnce = 500;
/** So many keys of a list take as long as a line of traffic. */
const keysOfLine = 6;

export function rowsOf(reports: readonly ActivityReport[]): Generator<ActivityReport> {
  return partsOf(reports, rowBytes, (line) => Buffer.byteLength(JSON.stringify(line)));
}

export function turnsOf(report: ActivityReport): Generator<ActivityReport> {
  return partsOf([report], mostAtOnce, (line) => 1 + (isKeys(line) ? line.keys.length / keysOfLine : 0));
}

/** Cuts where the weights of the lines would add up to more than `most`. */
function* partsOf(
  reports: readonly ActivityReport[],
  most: number,
  weigh: (line: Line) => number,
): Generator<ActivityReport> {
  let lines: Line[] = [];
  let weight = 0;
  const part = (): ActivityReport => ({ traffic: lines.filter(isTraffic), keys: lines.filter(isKeys) });
  for (const line of reports.flatMap(({ traffic, keys }): Line[] => [...traffic, ...keys])) {
    const more = weigh(line);
    if (lines.length > 0 && weight + more > most) {
      yield part();
      lines = [];
      weight = 0;
    }
    lines.push(line);
    weight += more;
  }
  if (lines.length > 0) yield part();
}

function isKeys(line: Line): line is ActivityReport["keys"][number] {
  return "keys" in line;
}

function isTraffic(line: Line): line is ActivityReport["traffic"][number] {
  return !isKeys(line);
}
