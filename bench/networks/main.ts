// npm run bench -- networks: a control plane on SQLite and a gateway of one worker with a list of a hundred thousand networks: what it takes
// in memory, how soon a replacement is in force, and what looking an address up costs a request.
import { readFileSync } from "node:fs";
import { SetupError, say } from "../../launch/step.mjs";
import { adminToken } from "../../test/fixtures/servers/control-plane-under-test.ts";
import { freePort } from "../../test/fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../test/fixtures/servers/lone-gateway.ts";
import { Plane } from "../../test/fixtures/servers/plane.ts";
import { childrenOf } from "../../test/fixtures/servers/system.ts";
import { until } from "../../test/fixtures/until.ts";
import type { Processes } from "../processes.ts";
import { writeJson } from "../report.ts";
import { median } from "../statistics.ts";
import { runWrk } from "../wrk.ts";
import type { NetworksOptions } from "./options.ts";

const gatewayToken = "test-gateway-token-0123456789";
const plain = (path: string) => ({
  match: { paths: [path] },
  key: ["ip"],
  limits: [{ algorithm: "fixed-window", quota: 2_000_000_000, window: "366d" }],
});
/** Nobody who asks is exempt, so each request is compared and counted. */
const policies = {
  "no-exemption": plain("/no-exemption"),
  "one-network": { ...plain("/one-network"), exempt: { cidrs: ["192.0.2.0/24"] } },
  "a-list": { ...plain("/a-list"), exempt: { cidrs: ["@many"] } },
} as const;
type Name = keyof typeof policies;

const families = ["ipv4", "ipv6"] as const;
const loadSeconds = 2;
const connections = 16;

export async function networks(
  processes: Processes,
  { networks: count, replacements, rounds, jsonFile }: NetworksOptions,
): Promise<void> {
  const plane = new Plane(await freePort(), {});
  let gateway: LoneGateway | undefined;
  try {
    await plane.start();
    gateway = await LoneGateway.start({
      policies: Object.entries(policies).map(([name, policy]) => ({ name, ...policy })),
      env: { SLUICE_GATEWAY_ID: "one", SLUICE_GATEWAY_TOKEN: gatewayToken, SLUICE_CONTROL_URL: plane.url },
      edit: (config) => config.replace(/proxy_pass [^;]+;/, "empty_gif;"),
    });
    await until("the gateway is connected", async () => (await plane.gatewaysHere()) === 1);
    for (const [name, policy] of Object.entries(policies)) {
      const { status } = await plane.call("PUT", `/apps/default/policies/${name}?wait=30s`, policy);
      if (status !== 201) throw new SetupError(`the policy ${name}: expected 201, got ${status}`);
    }
    const figures: Record<string, unknown> = { networks: count };
    for (const family of families) {
      figures[family] = await withList(processes, plane, gateway, { family, count, replacements, rounds });
    }
    figures["longestSliceMs"] = (await gateway.metric("sluice_snapshot_slice_max_seconds")) * 1_000;
    writeJson(jsonFile, figures);
    process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  } finally {
    await gateway?.stop();
    await plane.remove();
  }
}

interface Load {
  readonly family: (typeof families)[number];
  readonly count: number;
  readonly replacements: number;
  readonly rounds: number;
}

async function withList(
  processes: Processes,
  plane: Plane,
  gateway: LoneGateway,
  { family, count, replacements, rounds }: Load,
): Promise<object> {
  await put(plane, []);
  const before = workerMegabytes(gateway);
  say(`${count} networks of ${family}: replacing them ${replacements} times …`);
  const wholeMs: number[] = [];
  for (let i = 0; i < replacements; i++) wholeMs.push(await put(plane, listOf(family, count, i)));
  const oneMs: number[] = [];
  const list = listOf(family, count, replacements);
  list.pop();
  await put(plane, list);
  for (let i = 0; i < replacements; i++) oneMs.push(await put(plane, [...list, `198.51.100.${i}`]));
  const megabytes = workerMegabytes(gateway) - before;
  const rates: Record<Name, number[]> = { "no-exemption": [], "one-network": [], "a-list": [] };
  const names = Object.keys(rates) as Name[];
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const target = { path: `/${name}`, keys: "one" } as const;
      const { requests, durationUs } = await runWrk(processes, gateway.url, target, connections, loadSeconds);
      rates[name].push((requests / durationUs) * 1_000_000);
    }
  }
  const nanoseconds = (name: Name) => 1e9 / median(rates[name]);
  const nanosecondsMore = (name: Name) => Math.round(nanoseconds(name) - nanoseconds("no-exemption"));
  return {
    replacedInForceMs: { p50: median(wholeMs), most: Math.max(...wholeMs) },
    oneNetworkMoreInForceMs: { p50: median(oneMs), most: Math.max(...oneMs) },
    /** After garbage of many replacements, as the system sees it. */
    workerMegabytesMore: megabytes,
    requestsPerSecond: Object.fromEntries(names.map((name) => [name, Math.round(median(rates[name]))])),
    /** What a request takes more than without an exemption: because the policy leaves the fast path, and because an address is looked up. */
    nanosecondsMore: { "one-network": nanosecondsMore("one-network"), "a-list": nanosecondsMore("a-list") },
  };
}

/** Each list has other networks, none of which is one of this machine. */
function listOf(family: Load["family"], count: number, number: number): string[] {
  const bits = (number % 8) * 32;
  return Array.from({ length: count }, (_, i) =>
    family === "ipv4"
      ? `${10 + (i >> 16)}.${(i >> 8) % 256}.${i % 256}.${bits}/28`
      : `2001:db8:${(i >> 8).toString(16)}:${(i % 256).toString(16)}${(number % 8).toString(16)}::/80`,
  );
}

/** @returns how long it took until the gateway decided by it */
async function put(plane: Plane, list: readonly string[]): Promise<number> {
  const beganMs = performance.now();
  const answer = await fetch(`${plane.url}/api/v1/apps/default/networks/many?wait=60s`, {
    method: "PUT",
    body: list.join("\n"),
    headers: { "content-type": "text/plain", authorization: `Bearer ${adminToken}` },
  });
  const body = (await answer.json()) as { applied?: { acked: number } };
  if (body.applied?.acked !== 1)
    throw new SetupError(`expected one gateway to have the list, got ${JSON.stringify(body)}`);
  return performance.now() - beganMs;
}

function workerMegabytes(gateway: LoneGateway): number {
  const pids = childrenOf(gateway.pid);
  const pages = pids.map((pid) => Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]));
  return Math.max(...pages) / 1_024;
}
