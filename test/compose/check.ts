// Runs against `docker compose up`: puts a cluster policy, sends more than its quota to both gateways at once, and expects
// that the two together admit exactly the quota. Needs SLUICE_API_TOKEN (see the README).
//
//   npm run check:compose -- [--times 20] [--cold] [--busy 4]
//
// --times: the number of runs, each with a new policy. --cold: restarts both gateways before each run. --busy: the number of
// programs beside each run that only use the processor. COMPOSE: the command for the running project; default `docker compose`.

import { table } from "../../bench/report.ts";
import { optionsFrom } from "../../launch/command-line.ts";
import { fail, SetupError, say } from "../../launch/step.mjs";
import { BusyLoops } from "../fixtures/clients/busy-loops.ts";
import { askAsCrowd, type CrowdAnswer, percentileOf } from "../fixtures/clients/crowd.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { failuresInWords, type GatewayCounts } from "../fixtures/measures/gateway-counts.ts";
import { countsOfContainers, restartGateways } from "./containers.ts";

const controlUrl = "http://127.0.0.1:8081";
const gatewayUrls = ["http://127.0.0.1:8080", "http://127.0.0.1:8090"];
const quota = 100;
const offered = 500;

interface Options {
  readonly times: number;
  readonly cold: boolean;
  readonly busy: number;
}

interface Run {
  readonly answers: readonly CrowdAnswer[];
  /** Undefined if the gateways' metrics could not be reached. */
  readonly counts: GatewayCounts | undefined;
  /** What is wrong with the run, if anything. */
  readonly fault: string | undefined;
}

try {
  const options = readOptions(process.argv.slice(2));
  const token = process.env["SLUICE_API_TOKEN"];
  if (!token) {
    throw new SetupError("SLUICE_API_TOKEN: expected the admin token that the control plane's log shows, got nothing");
  }
  process.exitCode = await play(options, token);
} catch (error) {
  fail(error);
}

async function play({ times, cold, busy }: Options, token: string): Promise<number> {
  const runs: Run[] = [];
  for (let number = 1; number <= times; number++) {
    if (cold) await restartGateways(controlUrl, gatewayUrls, token);
    // The loops start after the restart: nginx does not start if the network's DNS is too late to resolve the upstream.
    const loops = await BusyLoops.start(busy);
    try {
      const run = await playOnce(`compose-check-${Date.now()}`, token, cold);
      runs.push(run);
      say(`${number} of ${times}: ${run.fault ?? `exactly ${quota} of ${offered} admitted`}`);
    } finally {
      await loops.stop();
    }
  }
  process.stdout.write(`\n${tableOf(runs)}\n\n`);
  const exact = runs.filter(({ fault }) => fault === undefined).length;
  say(`${exact} of ${times} exact: ${quota} of ${offered} requests at once to two gateways`);
  const withoutRedis = runs.reduce((sum, { counts }) => sum + (counts?.withoutRedis ?? 0), 0);
  if (withoutRedis > 0) say(`${withoutRedis} decisions were made without Redis, which was there`);
  return exact === times ? 0 : 1;
}

/** @param fresh whether the gateways have counted nothing before */
async function playOnce(name: string, token: string, fresh: boolean): Promise<Run> {
  const before = fresh ? undefined : await countsOfContainers(name, 0);
  const url = `${controlUrl}/api/v1/apps/default/policies/${name}?wait=30s`;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const policy = {
    scope: "cluster",
    match: { paths: [`/${name}`] },
    limits: [{ algorithm: "fixed-window", quota, window: "1d" }],
  };
  const put = await ask(url, { method: "PUT", headers, body: JSON.stringify(policy) });
  const applied = JSON.parse(put.body).applied;
  if (put.status !== 201 || applied?.gateways !== 2 || applied.acked !== 2) {
    const fault = `PUT ${name}: expected 201 and two gateways that apply it, got ${put.status} ${put.body.trim()}`;
    return { answers: [], counts: undefined, fault };
  }
  const answers = await askAsCrowd(
    gatewayUrls.map((gatewayUrl) => `${gatewayUrl}/${name}`),
    offered,
  );
  const decided = countOf(answers, 200) + countOf(answers, 429);
  const counts = await countsOfContainers(name, decided);
  await ask(url, { method: "DELETE", headers });
  return { answers, counts: counts && since(before, counts), fault: faultOf(answers) };
}

function faultOf(answers: readonly CrowdAnswer[]): string | undefined {
  const admitted = countOf(answers, 200);
  const refused = countOf(answers, 429);
  if (admitted === quota && refused === offered - quota) return undefined;
  return `expected ${quota} admitted and ${offered - quota} refused, got ${admitted} and ${refused}`;
}

/** Failures are not counted by policy, so those of earlier runs are subtracted. */
function since(before: GatewayCounts | undefined, after: GatewayCounts): GatewayCounts {
  const failures = Object.entries(after.failures)
    .map(([kind, count]) => [kind, count - (before?.failures[kind] ?? 0)] as const)
    .filter(([, count]) => count > 0);
  return { ...after, failures: Object.fromEntries(failures) };
}

function countOf(answers: readonly CrowdAnswer[], wanted: number): number {
  return answers.filter(({ status }) => status === wanted).length;
}

function tableOf(runs: readonly Run[]): string {
  const rows = runs.map(({ answers, counts }, i) => {
    const admitted = answers.filter(({ status }) => status === 200);
    const took = admitted.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
    const refused = countOf(answers, 429);
    return [
      `${i + 1}`,
      `${admitted.length}`,
      `${refused}`,
      `${answers.length - admitted.length - refused}`,
      counts === undefined ? "not reached" : `${counts.withoutRedis}`,
      counts === undefined ? "not reached" : failuresInWords(counts.failures),
      percentileOf(took, 50).toFixed(0),
      percentileOf(took, 99).toFixed(0),
    ];
  });
  const head = ["run", "admitted", "refused", "other statuses", "without Redis", "failures of Redis"];
  return table([...head, "p50 ms", "p99 ms"], rows).join("\n");
}

function readOptions(args: readonly string[]): Options {
  const usage = "npm run check:compose -- [--times N] [--cold] [--busy N]";
  const text = { type: "string" } as const;
  const values = optionsFrom(args, { times: text, cold: { type: "boolean" }, busy: text }, usage);
  return {
    times: wholeNumber("--times", values.times ?? "1", 1),
    cold: values.cold ?? false,
    busy: wholeNumber("--busy", values.busy ?? "0", 0),
  };
}

function wholeNumber(option: string, text: string, least: number): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= least) return number;
  throw new SetupError(`${option}: expected a whole number from ${least} on, got ${text}`);
}
