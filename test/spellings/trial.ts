// Sends the requests of seeds to all servers, in parts, and compares what they read with what Sluice counts, in Node and in LuaJIT.

import { join } from "node:path";
import { type Case, casesOf, type Kind, kinds } from "./cases.ts";
import { Comparison, type Difference } from "./compare.ts";
import { LineServers } from "./line-servers.ts";
import type { Readings } from "./server.ts";
import { startServers } from "./servers.ts";
import { readBySluice } from "./sluice.ts";

export interface Counts {
  sent: number;
  /** Answered 400. */
  refused: number;
  /** Counted under a value. */
  counted: number;
  differing: number;
}

export interface Result {
  readonly byKind: Readonly<Record<Kind, Counts>>;
  /** By server: how many of its readings were a value. */
  readonly read: Readonly<Record<string, number>>;
  readonly differences: readonly Difference[];
  /** What LuaJIT reads in another way than Node. */
  readonly ofRuntimes: readonly Case[];
}

export interface Options {
  /** Each is the seed of one part. */
  readonly seeds: readonly number[];
  readonly signal: AbortSignal;
  say(this: void, line: string): void;
}

/** All of one part are sent at once. */
export const partSize = 500;
const sayEvery = 20;

export async function compareWithServers({ seeds, signal, say }: Options): Promise<Result> {
  await using stack = new AsyncDisposableStack();
  const servers = await startServers(stack);
  const inLuaJit = new LineServers("luajit", ["test/spellings/servers/sluice.lua"], join(import.meta.dirname, "../.."));
  stack.defer(() => inLuaJit.stop());
  const comparison = new Comparison();
  const byKind = Object.fromEntries(
    kinds.map((kind) => [kind, { sent: 0, refused: 0, counted: 0, differing: 0 }]),
  ) as Record<Kind, Counts>;
  const read: Record<string, number> = {};
  const differences: Difference[] = [];
  const ofRuntimes: Case[] = [];

  function compare(one: Case, answers: Readonly<Record<string, Readings>>, lua: Readings): void {
    const counts = byKind[one.kind];
    const counted = readBySluice(one.kind, one.request);
    counts.sent += 1;
    if (counted === false) counts.refused += 1;
    else if (counted !== undefined) counts.counted += 1;
    const listed = counted === undefined ? [] : [counted === false ? "false" : `=${counted}`];
    if (JSON.stringify(lua[one.kind]) !== JSON.stringify(listed)) ofRuntimes.push(one);
    for (const [server, readings] of Object.entries(answers)) {
      const values = readings[one.kind] ?? [];
      read[server] = (read[server] ?? 0) + (values.length > 0 ? 1 : 0);
    }
    const found = comparison.differencesOf(one, answers);
    if (found.length > 0) counts.differing += 1;
    differences.push(...found);
  }

  for (const [part, seed] of seeds.entries()) {
    if (signal.aborted) break;
    const cases = casesOf(seed, partSize);
    const asked = cases.map(({ request }) => request);
    const [lua, ...answers] = await Promise.all([inLuaJit, ...servers].map((each) => each.ask(asked)));
    for (const [i, one] of cases.entries()) {
      compare(one, Object.assign({}, ...answers.map((each) => each[i])), lua?.[i]?.["Sluice"] ?? {});
    }
    if (part % sayEvery === sayEvery - 1) say(`${(part + 1) * partSize} requests, ${differences.length} differences`);
  }
  return { byKind, read, differences, ofRuntimes };
}
