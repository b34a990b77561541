// Prints the figures as tables.
import { table } from "../report.ts";
import { median } from "../statistics.ts";
import type { Durations } from "./edits.ts";
import type { Hostile, Side } from "./hostile.ts";
import type { PutAll } from "./put-all.ts";
import type { Results } from "./results.ts";
import type { Starts } from "./starts.ts";

export function printEdits({ empty, edits }: Results): void {
  print(
    [
      "policies",
      "gateways",
      "edits",
      "PUT p50 ms",
      "p99",
      "acknowledged p50",
      "p99",
      "enforced p50",
      "p99",
      "last of simulated p50",
      "p99",
      "requests p99 before",
      "during",
      "control plane CPU ms",
      "simulated CPU ms",
    ],
    edits.map(({ policies, gateways, times: { put, acknowledged, enforced, crowd, requests, cpuMs } }) => [
      `${policies}`,
      `${gateways}`,
      `${enforced.count}`,
      ...both(put),
      ...both(acknowledged),
      ...both(enforced),
      ...both(crowd),
      ms(requests.restP99Ms),
      ms(requests.p99Ms),
      ms(cpuMs.controlPlane),
      crowd === undefined ? "–" : ms(cpuMs.simulated),
    ]),
  );
  const alone = edits.flatMap(({ policies, alone }) => (alone === undefined ? [] : [{ policies, ...alone }]));
  print(
    [
      "policies",
      "pushed bytes",
      "gateway's disk",
      "control plane's disk",
      "workers CPU ms",
      "control plane CPU ms",
      "control plane ready ms",
      "gateway from disk ms",
    ],
    alone.map(({ policies, cost, controlPlaneReadyMs, gatewayFromDiskMs }) => [
      `${policies}`,
      cost.pushedBytes.toFixed(0),
      cost.gatewayDiskBytes.toFixed(0),
      cost.controlPlaneDiskBytes.toFixed(0),
      ms(cost.workersCpuMs),
      ms(cost.controlPlaneCpuMs),
      controlPlaneReadyMs.toFixed(0),
      median(gatewayFromDiskMs).toFixed(0),
    ]),
  );
  const rows = alone.flatMap(({ policies, loaded, after }) => [
    { policies, when: "loaded", ...loaded },
    { policies, when: "after the edits", ...after },
  ]);
  if (empty !== undefined) rows.unshift({ policies: 0, when: "empty", ...empty });
  print(
    [
      "policies",
      "when",
      "control plane MB",
      "at most MB",
      "its heap MB",
      "KB a policy",
      "worker MB",
      "its own MB",
      "its Lua MB",
      "KB a policy",
    ],
    rows.map(({ policies, when, controlPlane, controlPlaneHeapMB, workerMB, workerOwnMB, workerLuaMB }) => [
      `${policies}`,
      when,
      controlPlane.residentMB.toFixed(0),
      controlPlane.peakMB.toFixed(0),
      controlPlaneHeapMB.toFixed(0),
      eachKB(controlPlane.residentMB, empty?.controlPlane.residentMB, policies),
      workerMB.toFixed(0),
      workerOwnMB.toFixed(0),
      workerLuaMB.toFixed(1),
      eachKB(workerOwnMB, empty?.workerOwnMB, policies),
    ]),
  );
}

export function printPutAll(all: readonly PutAll[]): void {
  print(
    ["policies put", "by", "in force after ms", "control plane at most MB"],
    all.map(({ policies, by, inForceMs, controlPlanePeakMB }) => [
      `${policies}`,
      by,
      inForceMs.toFixed(0),
      controlPlanePeakMB.toFixed(0),
    ]),
  );
}

export function printStarts({ firstMs, laterMs }: Starts): void {
  print(
    ["npm start", "ready after ms", "at most"],
    [
      ["the first", firstMs.toFixed(0), firstMs.toFixed(0)],
      ["later ones", median(laterMs).toFixed(0), Math.max(...laterMs).toFixed(0)],
    ],
  );
}

export function printHostile({ policies, gateways, cuts, ...sides }: Hostile): void {
  const row = (name: string, side: Side) => [
    name,
    ms(side.p50Ms),
    ms(side.p99Ms),
    ms(side.mostMs),
    ms(side.controlPlaneCpuMs),
    side.controlPlaneMB.toFixed(0),
  ];
  print(
    [
      `${gateways} gateways, ${policies} policies`,
      "acknowledged p50 ms",
      "p99",
      "at most",
      "control plane CPU ms",
      "control plane MB",
    ],
    [row("without a slow and a hostile one", sides.without), row("with both", sides.with)],
  );
  process.stdout.write(`The control plane closed ${cuts} sockets of the others.\n\n`);
}

/** What each policy has added to what was there without any. */
function eachKB(megabytes: number, emptyMegabytes: number | undefined, policies: number): string {
  if (emptyMegabytes === undefined || policies === 0) return "–";
  return (((megabytes - emptyMegabytes) * 1024) / policies).toFixed(1);
}

function both(durations: Durations | undefined): [string, string] {
  return durations === undefined ? ["–", "–"] : [ms(durations.p50Ms), ms(durations.p99Ms)];
}

function ms(value: number): string {
  return value.toFixed(1);
}

function print(head: readonly string[], rows: readonly (readonly string[])[]): void {
  process.stdout.write(`\n${table(head, rows).join("\n")}\n\n`);
}
