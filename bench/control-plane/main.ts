// npm run bench -- control-plane: what an edit costs, from the request to the last worker of the last gateway.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Nginx } from "../../launch/nginx-binary.ts";
import { say } from "../../launch/step.mjs";
import { startRequests } from "../light-requests.ts";
import { describeMachine } from "../machine.ts";
import type { Processes } from "../processes.ts";
import { writeJson } from "../report.ts";
import { Crowd } from "./crowd.ts";
import { measureCost, measureEdits, type Occupied, occupied } from "./edits.ts";
import { hostile } from "./hostile.ts";
import type { ControlPlaneOptions } from "./options.ts";
import { Probe } from "./probe.ts";
import { putAll } from "./put-all.ts";
import { printEdits, printHostile, printPutAll, printStarts } from "./report.ts";
import type { Edits, Results } from "./results.ts";
import { gatewayToken, Site } from "./site.ts";
import { gatewayFromDisk, npmStarts } from "./starts.ts";
import { type Bench, realGateway, siteWith, untilLoaded } from "./surroundings.ts";

const requestEveryMs = 10;
const restMs = 5_000;
const costEdits = 10;
const starts = 5;

export async function controlPlane(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  options: ControlPlaneOptions,
): Promise<void> {
  const bench = { processes, nginx, luaDir, options };
  const { only, policies, gateways, fleetPolicies, jsonFile } = options;
  const { wrk: _, ...machine } = describeMachine(nginx.path);
  const results: Results = { edits: [], putAll: [] };
  const keep = () => writeJson(jsonFile, { date: new Date().toISOString(), machine, options, ...results });
  if (only.includes("edits")) {
    results.empty = await empty(bench);
    for (const count of gateways) {
      for (const stored of count === 1 ? policies : fleetPolicies) {
        say(`edits: ${stored} policies, ${gatewaysText(count)}`);
        results.edits.push(await edits(bench, stored, count));
        keep();
      }
    }
    printEdits(results);
  }
  if (only.includes("put-all")) {
    for (const stored of policies) {
      say(`put-all: ${stored} policies`);
      results.putAll.push(await putAll(bench, stored));
      keep();
    }
    printPutAll(results.putAll);
  }
  if (only.includes("starts")) {
    say("starts: npm start");
    results.starts = await npmStarts(bench, starts);
    keep();
    printStarts(results.starts);
  }
  if (only.includes("hostile")) {
    results.hostile = await hostile(bench);
    keep();
    printHostile(results.hostile);
  }
  keep();
  say(`results are in ${jsonFile}`);
}

function gatewaysText(count: number): string {
  return count === 1 ? "the real gateway alone" : `${count} gateways, one of them real`;
}

async function empty(bench: Bench): Promise<Occupied> {
  const directory = join(bench.processes.directory, "empty");
  const site = await Site.start(bench.processes, join(directory, "site"), undefined);
  const gateway = await realGateway(bench, site.url, join(directory, "gateway"));
  const found = await occupied(site, gateway);
  await gateway.stop();
  await site.stop();
  return found;
}

async function edits(bench: Bench, policies: number, gateways: number): Promise<Edits> {
  const { protocol, edits: most, seconds } = bench.options;
  const site = await siteWith(bench, policies);
  const gatewayDir = join(bench.processes.directory, `gateway-${policies}-${gateways}`);
  const gateway = await realGateway(bench, site.url, gatewayDir);
  await untilLoaded(gateway, policies);
  const simulated = (count: number, name: string) =>
    Crowd.start({ url: site.url, token: gatewayToken, protocol, name, count });
  const crowd = gateways > 1 ? await simulated(gateways - 1, "simulated") : undefined;
  const probe = await Probe.open(gateway);
  const loaded = await occupied(site, gateway);
  const stream = startRequests(gateway.url, lightTargets(policies), requestEveryMs);
  await sleep(restMs);
  const times = await measureEdits({ site, probe, crowd, stream }, most, seconds);
  stream.stop();
  probe.close();
  await crowd?.stop();
  if (gateways > 1) {
    await gateway.stop();
    await site.stop();
    return { policies, gateways, times };
  }
  const after = await occupied(site, gateway);
  const observer = await simulated(1, "observer");
  const cost = await measureCost({ site, gateway, observer }, costEdits);
  await observer.stop();
  await gateway.stop();
  await site.stop();
  const gatewayFromDiskMs = await gatewayFromDisk(bench, gatewayDir, policies, starts);
  return {
    policies,
    gateways,
    times,
    alone: { cost, loaded, after, controlPlaneReadyMs: site.readyMs, gatewayFromDiskMs },
  };
}

/** Requests for policies that are not edited. */
function lightTargets(policies: number): { host: string; path: string }[] {
  const hosts = Math.max(1, Math.min(100, Math.floor(policies / 10)));
  return Array.from({ length: hosts }, (_, i) => ({ host: `h${i}.example`, path: `/sluice/${i % 10}` }));
}
