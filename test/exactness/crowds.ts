// Sends a crowd to gateways that have just been started: none has opened a connection to Redis or compiled a line yet. Each
// run has gateways, a policy and counters of its own.

import { BusyLoops } from "../fixtures/clients/busy-loops.ts";
import { askAsCrowd } from "../fixtures/clients/crowd.ts";
import { atMost, type Fact, fact } from "../fixtures/measures/fact.ts";
import { countsOf, type GatewayCounts, sumOfCounts } from "../fixtures/measures/gateway-counts.ts";
import { type Gateway, System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";
import { type Account, inWords, type Run, runOf } from "./account.ts";
import { type CrowdScenario, crowdWindow } from "./scenarios.ts";

/** The number of workers that `auto` gives a small machine. */
export const workers = 2;

/** Uses the default deadline of an operator, since the tests' own is long. */
export const environment: NodeJS.ProcessEnv = { SLUICE_REDIS_DEADLINE_MS: process.env["SLUICE_REDIS_DEADLINE_MS"] };

export async function playCrowds(
  scenario: CrowdScenario,
  times: number,
  reported: (run: Run, number: number) => void = () => {},
  stopped = () => false,
): Promise<Account> {
  await using stack = new AsyncDisposableStack();
  const system = await System.start({ gateways: scenario.gateways, workers, redis: true, env: environment });
  stack.defer(() => system.stop());
  const loops = await BusyLoops.start(scenario.busyLoops);
  stack.defer(() => loops.stop());
  const runs: Run[] = [];
  while (runs.length < times && !stopped()) {
    if (runs.length > 0) await startAgain(system);
    runs.push(await playOnce(system, scenario, `crowd-${runs.length + 1}`));
    reported(runs.at(-1) as Run, runs.length);
  }
  return accountOf(scenario, runs);
}

async function startAgain(system: System): Promise<void> {
  await Promise.all(
    system.gateways.map(async (gateway) => {
      await gateway.program.stop();
      await system.startGatewayAgain(gateway);
    }),
  );
}

async function playOnce(system: System, scenario: CrowdScenario, name: string): Promise<Run> {
  const { algorithm, consistency, quota, offered } = scenario;
  await system.untilConnected();
  await system.put({
    name,
    scope: "cluster",
    consistency,
    match: { paths: [`/${name}`] },
    limits: [{ algorithm, quota, window: crowdWindow }],
  });
  const answers = await askAsCrowd(
    system.gateways.map(({ url }) => `${url}/${name}`),
    offered,
  );
  const decided = answers.filter(({ status }) => status === 200 || status === 429).length;
  return runOf(answers, await countsWhenReported(system.gateways, name, decided));
}

/** @param decisions the number of decisions that the gateways have to report */
async function countsWhenReported(
  gateways: readonly Gateway[],
  policy: string,
  decisions: number,
): Promise<GatewayCounts> {
  let counts = await countsOf(gateways, policy);
  await until("the gateways have told all their decisions", async () => {
    if (counts.decisions < decisions) counts = await countsOf(gateways, policy);
    return counts.decisions >= decisions;
  });
  return counts;
}

function accountOf({ name, what, quota, consistency }: CrowdScenario, runs: readonly Run[]): Account {
  const admitted = runs.map((run) => run.admitted);
  const excess = admitted.reduce((sum, count) => sum + Math.max(0, count - quota), 0);
  const facts: Fact[] = [
    consistency === "exact"
      ? fact(
          "admitted, each run",
          `${quota}`,
          inWords(admitted),
          admitted.every((count) => count === quota),
        )
      : fact(
          "admitted, each run",
          `≤ ${quota}`,
          inWords(admitted),
          admitted.every((count) => count <= quota),
        ),
    atMost("admitted beyond the limit, all runs", 0, excess),
    atMost(
      "answers other than 200 and 429, all runs",
      0,
      runs.reduce((sum, { others }) => sum + others, 0),
    ),
    atMost("decided without Redis, all runs", 0, sumOfCounts(runs.map(({ counts }) => counts)).withoutRedis),
  ];
  return { name, what, runs, excess, facts };
}
