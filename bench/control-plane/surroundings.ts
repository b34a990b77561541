// Starts the parts that every measurement needs: a control plane with policies, and a real gateway.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Nginx } from "../../launch/nginx-binary.ts";
import { type MeasuredGateway, startGateway } from "../measured-gateway.ts";
import type { Processes } from "../processes.ts";
import { fill } from "./fill.ts";
import type { ControlPlaneOptions } from "./options.ts";
import { gatewayToken, Site, siteEnvironment } from "./site.ts";

const workers = 2;
/** A snapshot with 100,000 policies has some 45 MB, and two of them must fit. */
const stateMegabytes = 192;
const patienceMs = 180_000;

export interface Bench {
  readonly processes: Processes;
  readonly nginx: Nginx;
  readonly luaDir: string;
  readonly options: ControlPlaneOptions;
}

/** Starts a real gateway at this control plane, with its files in this directory. */
export function realGateway(
  { processes, nginx, luaDir }: Bench,
  url: string,
  dataDir: string,
): Promise<MeasuredGateway> {
  const options = {
    luaDir,
    workers,
    controlUrl: url,
    token: gatewayToken,
    dataDir,
    findsStalls: false,
    stateMegabytes,
  };
  return startGateway(processes, nginx, options);
}

/** Starts a control plane that has so many policies. The same number is filled in once. */
export async function siteWith({ processes, options }: Bench, policies: number): Promise<Site> {
  const directory = join(processes.directory, `site-${policies}`);
  const { databaseUrl } = options;
  if (databaseUrl !== undefined || !existsSync(directory)) {
    await fill(siteEnvironment(directory, 1, databaseUrl), policies);
  }
  return Site.start(processes, directory, databaseUrl);
}

/** Waits until every worker has so many policies. */
export async function untilLoaded(gateway: MeasuredGateway, policies: number): Promise<void> {
  const giveUpAtMs = performance.now() + patienceMs;
  while ((await gateway.metric("sluice_snapshot_policies"))[0] !== policies) {
    if (performance.now() > giveUpAtMs)
      throw new Error(`the gateway does not have ${policies} policies after ${patienceMs} ms`);
    await sleep(20);
  }
}
