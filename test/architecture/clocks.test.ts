// Only files that clocks.ts lists read the machine's clock: everything that lasts goes by the stopwatch, which nobody sets.

import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { readersOfTheClock } from "./clocks.ts";

const source = resolve(import.meta.dirname, "../../gateway/src");

/** What ngx_lua and Lua have, and what runtime/clock.ts and runtime/stopwatch.ts export of it. */
const readings = [
  /\bngx\.(now|time|today|localtime|utctime|cookie_time|http_time)\b/,
  /\bngx\.req\.start_time\b/,
  /\bos\.(time|date|clock)\b/,
  /\bnew Date\b|\bDate\.now\b/,
  /import \{[^}]*\b(nowMs|nowUs)\b[^}]*\} from "[^"]*\/clock\.ts"/,
  /import \{[^}]*\bwallSeconds\b[^}]*\} from "[^"]*\/stopwatch\.ts"/,
];

/** By path below gateway/src. The scripts run in Redis, by the time of Redis; ngx.d.ts only declares. */
const texts = new Map(
  globSync("**/*.ts", { cwd: source, exclude: (name) => /^redis-scripts$|\.d\.ts$/.test(name) }).map((file) => [
    file,
    readFileSync(join(source, file), "utf8"),
  ]),
);

function readsTheClock(text: string): boolean {
  return readings.some((reading) => reading.test(text.replaceAll(/^\s*(\/\/|\/?\*).*$/gm, "")));
}

function readersIn(all: ReadonlyMap<string, string>): string[] {
  return [...all].filter(([, text]) => readsTheClock(text)).map(([file]) => file);
}

it("only files that clocks.ts lists read the machine's clock, and each of them does", () => {
  expect(texts.size).toBeGreaterThan(100);
  expect(readersIn(texts).sort()).toEqual(Object.keys(readersOfTheClock).sort());
});

it("a deadline by the machine's clock is found, however it is read", () => {
  for (const planted of [
    "const untilSeconds = ngx.now() + 1;",
    "const untilSeconds = ngx.time() + 1;",
    'import { nowMs, sleepMs } from "../runtime/clock.ts";',
    'import {\n  nowUs,\n  sleepMs,\n} from "../../runtime/clock.ts";',
    'import { stopwatchUs, wallSeconds } from "../runtime/stopwatch.ts";',
    "const startedAt = os.time();",
  ]) {
    expect([planted, readersIn(new Map([["push/dial.ts", planted]]))]).toEqual([planted, ["push/dial.ts"]]);
  }
  const harmless =
    '// As ngx.now() has it.\nimport { sleepMs } from "../runtime/clock.ts";\nimport { stopwatchUs } from "../runtime/stopwatch.ts";';
  expect(readersIn(new Map([["push/dial.ts", harmless]]))).toEqual([]);
});
