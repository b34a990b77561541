// Node's player, one of the compared processes: `node test/parity/play.ts seed family first counters asks` prints a line per
// counter: its digest, how many were asked, how many were allowed.

import { memoryPlayer } from "./memory-player.ts";
import { play, randomTrace } from "./trace.ts";

const [seed, family, first, counters, asks] = process.argv.slice(2).map(Number) as [
  number,
  number,
  number,
  number,
  number,
];
const player = memoryPlayer();
const lines: string[] = [];
for (let counter = first; counter < first + counters; counter++) {
  const { digest, asked, allowed } = play(player, randomTrace(seed, family, counter, asks), undefined);
  lines.push(`${digest} ${asked} ${allowed}`);
}
process.stdout.write(`${lines.join("\n")}\n`);
