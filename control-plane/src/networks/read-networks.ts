// Reads a list of networks as people and feeds write it: one network on each line, with comments.

import { setImmediate } from "node:timers/promises";
import { addProblem, type Findings, maxProblems, problemCount } from "@sluice/limiter/document/problems.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import { rangeOf } from "@sluice/limiter/key/address-ranges.ts";
import { cidrRule, formatCidr, parseCidr } from "@sluice/limiter/key/cidr.ts";
import { mostNetworksInList } from "@sluice/limiter/key/network-lists.ts";
import type { LocatedProblem } from "../errors/api-error.ts";
import { rangesOf } from "./network-ranges.ts";

/** The content of a list, ready to be stored. */
export interface NewNetworkList {
  /** Different networks in canonical form, in the order of their addresses. */
  readonly networks: readonly string[];
  /** Of both versions of IP (`Ranges`), as JSON. */
  readonly ranges: string;
  readonly bytes: number;
}

/** Lines that are read without a pause, which takes some 5 ms. */
const linesAtOnce = 2_000;

/**
 * @param text a network on each line; what follows "#" or ";" is a comment
 * @param findings gets each line that is no network, until there are a hundred and no more is read; and a list that is too long
 */
export async function readNetworks(text: string, findings: Findings): Promise<NewNetworkList> {
  /** By their ranges, in which different spellings of a network are the same. */
  const networks = new Map<string, string>();
  let number = 0;
  for (let from = 0; from < text.length && problemCount(findings) < maxProblems; ) {
    // To split the text at once takes a third of a second if it has eight million lines.
    const end = text.indexOf("\n", from);
    const line = text.slice(from, end < 0 ? text.length : end);
    from = end < 0 ? text.length : end + 1;
    number += 1;
    if (number % linesAtOnce === 0) await setImmediate();
    const written = line.split(/[#;]/, 1)[0]?.trim() ?? "";
    if (written === "") continue;
    const network = written.length > 64 ? undefined : parseCidr(written);
    if (network === undefined) {
      const located: LocatedProblem = { line: number, path: "", expected: cidrRule, got: describeValue(written) };
      addProblem(findings, located);
      continue;
    }
    networks.set(rangeOf(network), formatCidr(network));
  }
  if (networks.size > mostNetworksInList) {
    const expected = `at most ${mostNetworksInList} networks`;
    addProblem(findings, { path: "", expected, got: `${networks.size}` });
  }
  // IPv4 first: its texts are shorter.
  const sorted = [...networks].sort(([a], [b]) => a.length - b.length || (a < b ? -1 : 1));
  const ranges = await rangesOf(sorted.map(([range]) => range));
  return {
    networks: sorted.map(([, network]) => network),
    ranges: JSON.stringify(ranges),
    bytes: ranges.v4.length + ranges.v6.length,
  };
}
