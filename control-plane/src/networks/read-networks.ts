// Reads a list of networks as people and feeds write it: one network on each line, with comments.

import { addProblem, type Findings, maxProblems, problemCount } from "@sluice/limiter/document/problems.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import { rangeOf } from "@sluice/limiter/key/address-ranges.ts";
import { cidrRule, formatCidr, parseCidr } from "@sluice/limiter/key/cidr.ts";
import { mostNetworksInList } from "@sluice/limiter/key/network-lists.ts";
import type { LocatedProblem } from "../errors/api-error.ts";
import { rangesOf, sortedRanges } from "./network-ranges.ts";

/** The content of a list, ready to be stored. */
export interface NewNetworkList {
  /** Different networks in canonical form, in the order of their addresses, one on each line. */
  readonly networks: string;
  readonly count: number;
  /** Of both versions of IP (`Ranges`), as JSON. */
  readonly ranges: string;
  readonly bytes: number;
}

/** Lines that are read without looking how long it took. */
const linesAtOnce = 250;

/**
 * @param text a network on each line; what follows "#" or ";" is a comment
 * @param findings gets each line that is no network, until there are a hundred; and a list that is too long: no more is read then
 * @param pause is called between steps of some milliseconds, and resolves when it is time for the next one
 */
export async function readNetworks(
  text: string,
  findings: Findings,
  pause: () => Promise<void>,
): Promise<NewNetworkList> {
  /** By their ranges, in which different spellings of a network are the same. */
  const networks = new Map<string, string>();
  let number = 0;
  for (let from = 0; from < text.length && problemCount(findings) < maxProblems; ) {
    // To split the text at once takes a third of a second if it has eight million lines.
    const end = text.indexOf("\n", from);
    const line = text.slice(from, end < 0 ? text.length : end);
    from = end < 0 ? text.length : end + 1;
    number += 1;
    if (number % linesAtOnce === 0) await pause();
    const written = line.split(/[#;]/, 1)[0]?.trim() ?? "";
    if (written === "") continue;
    const network = written.length > 64 ? undefined : parseCidr(written);
    if (network === undefined) {
      const located: LocatedProblem = { line: number, path: "", expected: cidrRule, got: describeValue(written) };
      addProblem(findings, located);
      continue;
    }
    networks.set(rangeOf(network), formatCidr(network));
    if (networks.size <= mostNetworksInList) continue;
    const expected = `at most ${mostNetworksInList} networks`;
    addProblem(findings, { path: "", expected, got: "more" });
    break;
  }
  // Nobody needs the order of a list that is refused.
  if (problemCount(findings) > 0) return { networks: "", count: 0, ranges: "", bytes: 0 };
  const sorted = await sortedRanges([...networks.keys()], pause);
  const ranges = await rangesOf(sorted, pause);
  const texts: string[] = [];
  for (let at = 0; at < sorted.length; at += linesAtOnce) {
    const some = sorted.slice(at, at + linesAtOnce).map((range) => networks.get(range));
    texts.push(some.join("\n"));
    await pause();
  }
  return {
    networks: texts.join("\n"),
    count: sorted.length,
    ranges: JSON.stringify(ranges),
    bytes: ranges.v4.length + ranges.v6.length,
  };
}
