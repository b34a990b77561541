// Reads a list of networks as people and feeds write it: one network on each line, with comments.

import type { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { addProblem, type Findings, maxProblems, problemCount } from "@sluice/limiter/document/problems.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import { rangeOf } from "@sluice/limiter/key/address-ranges.ts";
import { cidrRule, formatCidr, parseCidr } from "@sluice/limiter/key/cidr.ts";
import { mostNetworksInList } from "@sluice/limiter/key/network-lists.ts";
import { ApiError, type LocatedProblem } from "../errors/api-error.ts";
import { rangesOf } from "./network-ranges.ts";

/** The content of a list, ready to be stored. */
export interface NewNetworkList {
  /** Different networks in canonical form, in the order of their addresses. */
  readonly networks: readonly string[];
  /** Of both versions of IP (`Ranges`), as JSON. */
  readonly ranges: string;
  readonly bytes: number;
}

/** A hundred thousand of the longest networks, and comments. */
export const maxListBytes = 8 * 1024 * 1024;

/** Lines that are read without a pause, which takes some 5 ms. */
const linesAtOnce = 2_000;

/** @throws ApiError body-too-large */
export async function textOfBody(body: Readable): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  // The connection must stay open for the answer.
  for await (const piece of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > maxListBytes) {
      const detail = `The body is larger than ${maxListBytes / 1_048_576} MiB, the most for a list of networks. Nothing was stored.`;
      throw new ApiError("body-too-large", detail);
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

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
