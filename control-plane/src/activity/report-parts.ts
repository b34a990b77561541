// Cuts what another control plane has relayed into parts, as what is taken over without a pause.

import type { ActivityReport } from "./activity.ts";

/** The traffic of a policy, or a list of its keys. */
export type Line = ActivityReport["traffic"][number] | ActivityReport["keys"][number];

/** As much as a message of a gateway may have. */
const mostAtOnce = 500;
/** So many keys of a list take as long as a line of traffic. */
const keysOfLine = 6;

export function* turnsOf(all: readonly Line[]): Generator<ActivityReport> {
  let lines: Line[] = [];
  let weight = 0;
  const part = (): ActivityReport => ({ traffic: lines.filter(isTraffic), keys: lines.filter(isKeys) });
  for (const line of all) {
    const more = 1 + (isKeys(line) ? line.keys.length / keysOfLine : 0);
    if (lines.length > 0 && weight + more > mostAtOnce) {
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
