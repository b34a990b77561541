// Runs against `docker compose --profile examples up`: reads what the three example services counted in ten seconds, and expects that all of
// them were allowed something, and together no more than the vendor takes.
//
//   npm run check:examples
//
// COMPOSE: the command for the running project; default `docker compose`.

import { setTimeout as sleep } from "node:timers/promises";
import { table } from "../../bench/report.ts";
import { fail, SetupError, say } from "../../launch/step.mjs";
import {
  factsOf,
  lateSeconds,
  type SecondOfService,
  secondsIn,
  tableOfSeconds,
  vendor,
} from "../fixtures/measures/shared-rate.ts";
import { logsOf } from "./containers.ts";

const services = ["go", "java", "node"];
const seconds = 10;
/** What a service counts in a second is printed with the first answer in the next one. */
const printedWithinSeconds = 2;
/** A bucket overflows while the machine stands still. */
const leastPercent = 90;

try {
  // A command that does not work is reported before anybody waits for ten seconds.
  await logsOf(`example-${services[0]}`, 1);
  const from = Math.floor(Date.now() / 1000) + 1;
  say(`reading ${seconds} seconds of ${services.join(", ")} …`);
  await sleep((from + seconds + printedWithinSeconds) * 1000 - Date.now());
  const lines = (await Promise.all(services.map(linesOf))).flat();
  const facts = factsOf(lines, services, { from, seconds, late: lateSeconds, leastPercent });
  process.stdout.write(`\n${tableOfSeconds(lines, services, from, seconds).join("\n")}\n\n`);
  const rows = facts.map(({ what, expected, seen, ok }) => [
    what,
    expected,
    seen,
    ok ? "as expected" : "NOT AS EXPECTED",
  ]);
  process.stdout.write(`${table(["", "expected", "seen", ""], rows).join("\n")}\n\n`);
  const wrong = facts.filter(({ ok }) => !ok).length;
  say(
    `${facts.length - wrong} of ${facts.length} as expected: three services share ${vendor.ratePerSecond} a second, with bursts of ${vendor.burst}`,
  );
  process.exitCode = wrong === 0 ? 0 : 1;
} catch (error) {
  fail(error);
}

async function linesOf(service: string): Promise<SecondOfService[]> {
  const output = await logsOf(`example-${service}`, 10 * (seconds + printedWithinSeconds));
  const lines = secondsIn(output);
  if (lines.length > 0) return lines;
  throw new SetupError(
    `example-${service}: expected a line for each second in its log, got ${JSON.stringify(output.slice(-500))}\n` +
      "Is it up (docker compose --profile examples up --detach)?",
  );
}
