// npm run bench -- consumers: a control plane on SQLite and two gateways with a million consumers: how long their import takes, what they
// take in memory, how soon a change of one is in force, how long a gateway needs to start with them, and what other policies cost beside
// them. A third gateway has none.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { SetupError, say } from "../../launch/step.mjs";
import { ask } from "../../test/fixtures/clients/requests.ts";
import { adminToken } from "../../test/fixtures/servers/control-plane-under-test.ts";
import { freePort } from "../../test/fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../test/fixtures/servers/lone-gateway.ts";
import { Plane } from "../../test/fixtures/servers/plane.ts";
import type { Processes } from "../processes.ts";
import { writeJson } from "../report.ts";
import { median } from "../statistics.ts";
import { runWrk } from "../wrk.ts";
import type { ConsumersOptions } from "./options.ts";

const gatewayToken = "test-gateway-token-0123456789";
const daily = (quota: number) => [{ name: "daily", algorithm: "fixed-window", quota, window: "366d" }];
const policies = {
  books: {
    match: { paths: ["/books"] },
    key: ["header:x-user"],
    plans: { free: daily(1_000_000), pro: daily(2_000_000) },
    planBy: "consumer",
    defaultPlan: "free",
  },
  plain: {
    match: { paths: ["/plain"] },
    key: ["ip"],
    limits: [{ algorithm: "fixed-window", quota: 2_000_000_000, window: "366d" }],
  },
};
const idOf = (number: number) => `customer-${String(number).padStart(7, "0")}`;
const waitMs = 240_000;
const loadSeconds = 2;
const connections = 16;

export async function consumers(
  processes: Processes,
  { consumers: count, changes, rounds, jsonFile }: ConsumersOptions,
): Promise<void> {
  const plane = new Plane(await freePort(), {});
  const gateways: LoneGateway[] = [];
  try {
    await plane.start();
    for (const name of ["one", "two"]) gateways.push(await startGateway(name, plane.url));
    const empty = await startGateway("empty", undefined);
    gateways.push(empty);
    const [one, two] = gateways as [LoneGateway, LoneGateway];
    await until("the gateways are connected", async () => (await plane.gatewaysHere()) === 2);
    for (const [name, policy] of Object.entries(policies)) {
      const { status } = await plane.call("PUT", `/apps/default/policies/${name}?wait=30s`, policy);
      if (status !== 201) throw new SetupError(`the policy ${name}: expected 201, got ${status}`);
    }
    const { pid } = plane;
    const memoryBefore = memoryOf(pid);
    const freeBefore = await one.metric("sluice_consumers_free_bytes");
    const emptyStartMs = await restarted(two);
    await until("both are connected again", async () => (await plane.gatewaysHere()) === 2);

    say(`importing ${count} consumers …`);
    const beganMs = performance.now();
    await load(plane.url, count);
    const importSeconds = (performance.now() - beganMs) / 1_000;
    await until("both have them", async () => {
      const counts = await Promise.all([one, two].map((gateway) => gateway.metric("sluice_consumers")));
      return counts.every((held) => held === count);
    });
    const heldSeconds = (performance.now() - beganMs) / 1_000;
    const memoryAfter = memoryOf(pid);
    const dictBytes = freeBefore - (await one.metric("sluice_consumers_free_bytes"));

    say(`changing ${changes} of them …`);
    const inForceMs: number[] = [];
    for (let change = 0; change < changes; change++) {
      inForceMs.push(await changed(plane, [one, two], idOf((change * 7_919) % count)));
      await sleep(20);
    }
    inForceMs.sort((a, b) => a - b);

    say("load on a policy without plans, with consumers and without …");
    const withConsumers: number[] = [];
    const without: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const turns = [[one, withConsumers] as const, [empty, without] as const];
      for (const [gateway, rates] of round % 2 === 0 ? turns : turns.reverse()) {
        const target = { path: "/plain", keys: "one" } as const;
        const { requests, durationUs } = await runWrk(processes, gateway.url, target, connections, loadSeconds);
        rates.push((requests / durationUs) * 1_000_000);
      }
    }

    await plane.kill();
    const startMs = await restarted(one);
    const known = await limitOf(one, idOf(1));
    if (known !== 2_000_000) say(`expected the limit 2000000 after the start, got ${known}\n${one.log}`);
    const figures = {
      consumers: count,
      importSeconds,
      inBothGatewaysAfterSeconds: heldSeconds,
      controlPlaneMegabytes: { before: memoryBefore, after: memoryAfter },
      gatewayBytesEach: dictBytes / count,
      changeInForceMs: { p50: at(inForceMs, 0.5), p99: at(inForceMs, 0.99), most: inForceMs.at(-1) },
      gatewayStartsMs: { withNone: emptyStartMs, withAll: startMs, knowsThem: known === 2_000_000 },
      requestsPerSecond: {
        withConsumers: median(withConsumers),
        without: median(without),
        ratio: median(withConsumers) / median(without),
      },
    };
    writeJson(jsonFile, figures);
    process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  } finally {
    for (const gateway of gateways) await gateway.stop();
    await plane.remove();
  }
}

function startGateway(id: string, controlUrl: string | undefined): Promise<LoneGateway> {
  const known = Object.entries(policies).map(([name, policy]) => ({ name, ...policy }));
  return LoneGateway.start({
    policies: known,
    env: {
      SLUICE_GATEWAY_ID: id,
      SLUICE_GATEWAY_TOKEN: gatewayToken,
      ...(controlUrl === undefined ? {} : { SLUICE_CONTROL_URL: controlUrl }),
    },
    edit: (config) =>
      config.replace(/sluice_consumers \d+m/, "sluice_consumers 320m").replace(/proxy_pass [^;]+;/, "empty_gif;"),
  });
}

async function load(url: string, count: number): Promise<void> {
  const lines: string[] = [];
  for (let i = 0; i < count; i++) lines.push(JSON.stringify({ id: idOf(i), plan: "pro" }));
  const answer = await fetch(`${url}/api/v1/apps/default/consumers?progress=true`, {
    method: "PUT",
    body: lines.join("\n"),
    headers: { "content-type": "application/jsonl", authorization: `Bearer ${adminToken}` },
  });
  let last = "";
  for await (const chunk of answer.body ?? []) last = Buffer.from(chunk).toString().trimEnd().split("\n").at(-1) ?? "";
  const { done } = JSON.parse(last);
  if (done !== count) throw new SetupError(`expected ${count} consumers to be stored, got ${last.slice(0, 500)}`);
}

/** Gives a consumer another plan. @returns how long it took until both gateways decided by it */
async function changed(plane: Plane, gateways: readonly LoneGateway[], id: string): Promise<number> {
  const beganMs = performance.now();
  const put = plane.call("PUT", `/apps/default/consumers/${id}`, { plan: "free" });
  const seen = gateways.map(async (gateway) => {
    while ((await limitOf(gateway, id)) !== 1_000_000) {
      if (performance.now() - beganMs > waitMs) throw new SetupError(`the change of ${id} never came into force`);
    }
  });
  await Promise.all([put, ...seen]);
  return performance.now() - beganMs;
}

async function limitOf(gateway: LoneGateway, user: string): Promise<number> {
  const { headers } = await ask(`${gateway.url}/books`, { headers: { "x-user": user } });
  return Number(headers["x-ratelimit-limit"]);
}

async function restarted(gateway: LoneGateway): Promise<number> {
  let beganMs = 0;
  await gateway.restart(() => {
    beganMs = performance.now();
  });
  return performance.now() - beganMs;
}

/** Resident memory now, and the most there was. */
function memoryOf(pid: number): { resident: number; most: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const megabytes = (name: string) => Math.round(Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1_024);
  return { resident: megabytes("VmRSS"), most: megabytes("VmHWM") };
}

function at(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

async function until(what: string, isTrue: () => Promise<boolean>): Promise<void> {
  const giveUpMs = performance.now() + waitMs;
  while (!(await isTrue())) {
    if (performance.now() > giveUpMs) throw new SetupError(`waited in vain until ${what}`);
    await sleep(100);
  }
}
