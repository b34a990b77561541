// npm run console-load: how fast the console is with many policies, and whether it stays small and smooth: opens it before a real system under
// load, and samples the page's memory and frames while the chart runs.

import { setTimeout as sleep } from "node:timers/promises";
import type { CDPSession, Page } from "playwright-core";
import { table } from "../../../bench/report.ts";
import { median } from "../../../bench/statistics.ts";
import { optionsFrom } from "../../../launch/command-line.ts";
import { say } from "../../../launch/step.mjs";
import { newPage, signIn, startBrowser } from "../../fixtures/clients/console-page.ts";
import { load } from "../../fixtures/clients/steady-load.ts";
import { atMost, type Fact, fact } from "../../fixtures/measures/fact.ts";
import { type Outcome, runTrial } from "../../fixtures/measures/trial.ts";
import { adminToken, System } from "../../fixtures/servers/system.ts";

const usage = "npm run console-load -- [--minutes NUMBER] [--policies NUMBER] [--rate REQUESTS-PER-SECOND]";
const mb = 1_048_576;
const loads = 7;

interface Options {
  readonly minutes: number;
  readonly policies: number;
  readonly rate: number;
}

await runTrial({ readOptions, play });

function readOptions(args: readonly string[]): Options {
  const number = { type: "string" } as const;
  const values = optionsFrom(args, { minutes: number, policies: number, rate: number }, usage);
  return {
    minutes: Number(values.minutes ?? 60),
    policies: Number(values.policies ?? 10_000),
    rate: Number(values.rate ?? 500),
  };
}

async function play({ minutes, policies, rate }: Options, stopping: AbortSignal): Promise<Outcome | undefined> {
  const system = await System.start({ gateways: 1, workers: 1 });
  const browser = await startBrowser();
  try {
    await fill(system, policies);
    const facts: Fact[] = [];
    facts.push(...(await timeLoads(browser, system, policies)));
    const seconds = minutes * 60;
    const loading = load([`${system.gateways[0]?.url}/path-1`], rate, seconds + 10);
    const { page } = await newPage(browser);
    await signIn(page, system.controlUrl, adminToken, "/overview");
    await page.locator(".live").waitFor();
    const session = await page.context().newCDPSession(page);
    const heaps: number[] = [];
    const rates: number[] = [];
    // The first minutes fill the chart.
    for (let minute = 0; minute < minutes && !stopping.aborted; minute++) {
      await sleep(50_000);
      rates.push(await framesPerSecond(page));
      heaps.push(await heapBytes(session));
      const [heap = 0] = heaps.slice(-1);
      say(`minute ${minute + 1}: ${(heap / mb).toFixed(1)} MB, ${(rates.at(-1) ?? 0).toFixed(0)} frames/s`);
    }
    if (stopping.aborted) return undefined;
    await loading;
    const filled = heaps.slice(Math.min(6, Math.floor(heaps.length / 3)));
    const growth = (Math.max(...filled) - (filled[0] ?? 0)) / mb;
    facts.push(atMost(`memory that the page took more in ${minutes} minutes, the chart being full`, 3, growth, " MB"));
    const least = Math.min(...rates);
    facts.push(
      fact(
        "frames a second while the chart runs, the lowest of all minutes",
        "55 or more",
        least.toFixed(0),
        least >= 55,
      ),
    );
    const rows = facts.map(({ what, expected, seen, ok }) => [what, expected, seen, ok ? "as expected" : "DIFFERS"]);
    const differing = facts.filter(({ ok }) => !ok).length;
    return {
      tables: table([`the console, ${policies} policies, ${rate} requests/s`, "expected", "seen", ""], rows).join("\n"),
      files: "what is printed here",
      differing,
      of: facts.length,
    };
  } finally {
    await browser.close();
    await system.stop();
  }
}

async function fill(system: System, count: number): Promise<void> {
  const lines = Array.from({ length: count }, (_, i) =>
    JSON.stringify({
      name: `policy-${i}`,
      description: `Policy ${i} of many`,
      match: { paths: [`/path-${i}`] },
      limits: [{ algorithm: "token-bucket", quota: 100, window: "1s" }],
    }),
  );
  const answer = await fetch(`${system.controlUrl}/api/v1/apps/default/policies?wait=60s`, {
    method: "PUT",
    headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/jsonl" },
    body: lines.join("\n"),
  });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
}

/** From the beginning of the navigation until the list can be read and searched, in a browser without a cache. */
async function timeLoads(
  browser: Awaited<ReturnType<typeof startBrowser>>,
  system: System,
  policies: number,
): Promise<Fact[]> {
  const listMs: number[] = [];
  const searchMs: number[] = [];
  let bytes = 0;
  for (let i = 0; i < loads; i++) {
    const { page } = await newPage(browser);
    await signIn(page, system.controlUrl, adminToken, "/sign-in");
    const session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    await session.send("Network.clearBrowserCache");
    bytes = 0;
    session.on("Network.loadingFinished", ({ encodedDataLength }) => {
      bytes += encodedDataLength;
    });
    const startedMs = performance.now();
    await page.goto(`${system.controlUrl}/policies?app=default`, { waitUntil: "commit" });
    await page
      .getByText(`${policies.toLocaleString("en")} of`)
      .or(page.getByRole("link", { name: "policy-0", exact: true }))
      .first()
      .waitFor();
    listMs.push(performance.now() - startedMs);
    const typedMs = performance.now();
    await page.getByLabel("Search").fill(`policy-${policies - 1}`);
    await page.getByRole("link", { name: `policy-${policies - 1}`, exact: true }).waitFor();
    searchMs.push(performance.now() - typedMs);
    await page.context().close();
  }
  say(
    `list: ${listMs.map(Math.round).join(" ")} ms; search: ${searchMs.map(Math.round).join(" ")} ms; ${Math.round(bytes / 1_024)} KB`,
  );
  return [
    atMost(
      `until the list of ${policies} policies can be used, median of ${loads}`,
      1_000,
      Math.round(median(listMs)),
      " ms",
    ),
    atMost(`until a search has found one of them, median of ${loads}`, 300, Math.round(median(searchMs)), " ms"),
  ];
}

async function framesPerSecond(page: Page): Promise<number> {
  const seconds = 8;
  const frames = await page.evaluate(
    (ms) =>
      new Promise<number>((resolve) => {
        let count = 0;
        const end = performance.now() + ms;
        const frame = () => {
          count += 1;
          if (performance.now() < end) requestAnimationFrame(frame);
          else resolve(count);
        };
        requestAnimationFrame(frame);
      }),
    seconds * 1_000,
  );
  return frames / seconds;
}

async function heapBytes(session: CDPSession): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  return (await session.send("Runtime.getHeapUsage")).usedSize;
}
