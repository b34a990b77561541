// Two gateways of a fleet decide by two revisions, because one of them has no way to the control plane. Both still reach Redis.

import { setTimeout as sleep } from "node:timers/promises";
import { Load, type Served } from "../fixtures/clients/load.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { mostAtOnce } from "../fixtures/measures/bound.ts";
import { atLeast, atMost, type Fact, fact } from "../fixtures/measures/fact.ts";
import { adminToken, type System } from "../fixtures/servers/system.ts";
import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { until } from "../fixtures/until.ts";
import type { Fault } from "./fault.ts";
import { observe, startRedis, startSystem } from "./scenario.ts";

const larger = 60;
const smaller = 30;
/** Each policy is asked for this much, by both gateways in turn: each of them alone reaches its limit. */
const ratePerSecond = 200;
const differsForMs = 4_000;

interface Edited {
  readonly name: string;
  readonly key: readonly string[];
  readonly description: string;
  readonly quota: number;
}

interface Edit {
  readonly name: string;
  /** What the gateway with the newer revision has otherwise. */
  readonly edited: Partial<Edited>;
  /** Whether both revisions have the same counter: what its key depends on is the same. */
  readonly oneCounter: boolean;
}

const edits: readonly Edit[] = [
  { name: "described", edited: { description: "another one" }, oneCounter: true },
  { name: "resized", edited: { quota: smaller }, oneCounter: true },
  { name: "rekeyed", edited: { key: ["header:x-key", "method"] }, oneCounter: false },
];

const before = (name: string): Edited => ({ name, key: ["header:x-key"], description: "as it was", quota: larger });
const after = ({ name, edited }: Edit): Edited => ({ ...before(name), ...edited });

function documentOf({ name, key, description, quota }: Edited) {
  const limits = [{ algorithm: "token-bucket", quota, window: "1s" }];
  return { name, description, scope: "cluster", match: { paths: [`/${name}`] }, key, limits };
}

const twoRevisions: Fault = {
  number: 17,
  name: "gateways on two revisions",
  async run(stack) {
    const redis = await startRedis(stack);
    const system = await startSystem(stack, { env: { SLUICE_REDIS_URL: redis.url } });
    const proxy = await TcpProxy.start(Number(new URL(system.controlUrl).port));
    stack.defer(() => proxy.refuse());
    await system.addGateway([], "127.0.0.1", { SLUICE_CONTROL_URL: `http://127.0.0.1:${proxy.port}` });
    for (const { name } of edits) await system.put(documentOf(before(name)));
    const loads = edits.map(
      ({ name }) =>
        new Load(
          system.gateways.map(({ url }) => `${url}/${name}`),
          ratePerSecond,
          ["all"],
        ),
    );
    for (const load of loads) stack.defer(() => load.stop());
    let [fromMs, toMs, backAfterMs] = [0, 0, 0];
    let frames = { deltas: 0, snapshots: 0 };
    let revisions = "";
    return observe(stack, {
      system,
      decides: "counter",
      async inject() {
        for (const load of loads) load.start();
        await sleep(500);
        await proxy.refuse();
        for (const edit of edits) await putAtOne(system, documentOf(after(edit)));
        fromMs = performance.now();
        await sleep(differsForMs);
        toMs = performance.now();
        const sent = await framesSent(system);
        await proxy.accept();
        await until("the gateway is back and has the last revision", async () => {
          const { revision, gateways } = await fleetOf(system);
          revisions = gateways.map((gateway) => gateway.revision - revision).join(", ");
          return gateways.every((gateway) => gateway.connected && gateway.revision === revision);
        });
        backAfterMs = performance.now() - toMs;
        const sentInAll = await framesSent(system);
        frames = { deltas: sentInAll.deltas - sent.deltas, snapshots: sentInAll.snapshots - sent.snapshots };
        await sleep(1_000);
        await Promise.all(loads.map((load) => load.stop()));
        return undefined;
      },
      moreFacts: () => [
        ...edits.flatMap((edit, i) => factsOf(edit, (loads[i] as Load).served, fromMs, toMs)),
        // It tries again after pauses of up to 2 s, and a busy machine takes its time.
        atMost("until the one is back", 8_000, backAfterMs, " ms"),
        fact("revisions behind the last one, afterwards", "0, 0", revisions, revisions === "0, 0"),
        fact("deltas that it got", "1", `${frames.deltas}`, frames.deltas === 1),
        atMost("snapshots that it got", 0, frames.snapshots),
      ],
    });
  },
};

function factsOf(edit: Edit, served: readonly Served[], fromMs: number, toMs: number): Fact[] {
  const { name, oneCounter } = edit;
  const [newer, older] = [after(edit).quota, before(name).quota];
  const admitted = served.filter(({ status }) => status === 200);
  const during = served.filter(({ sentAtMs, answeredAtMs }) => sentAtMs >= fromMs && answeredAtMs <= toMs);
  const told = [0, 1].map((gateway) => {
    const limits = new Set(during.filter((one) => one.gateway === gateway).map(({ limit }) => limit));
    return [...limits].join(" and ");
  });
  const failed = served.filter(({ status }) => status !== 200 && status !== 429).length;
  const facts = [
    atMost(`${name}: answers other than 200 and 429`, 0, failed),
    fact(`${name}: limits told by the two`, `${newer}, ${older}`, told.join(", "), told.join() === `${newer},${older}`),
  ];
  const inAll = during.filter(({ status }) => status === 200).length;
  if (oneCounter) {
    const most = Math.max(newer, older);
    facts.push(
      atMost(`${name}: admitted by both, of ${most} + ${most}/s · t`, most, mostAtOnce(admitted, most)),
      atLeast(
        `${name}: admitted by both, of what the smaller limit allows`,
        80,
        share(inAll, Math.min(newer, older), fromMs, toMs),
        " %",
      ),
    );
    if (newer < older) {
      const own = during.filter((one) => one.gateway === 0 && one.status === 200);
      facts.push(atMost(`${name}: admitted by gateway 1, of ${newer} + ${newer}/s · t`, newer, mostAtOnce(own, newer)));
    }
    return facts;
  }
  for (const [gateway, quota] of [newer, older].entries()) {
    // Before and after, the two have one counter: which one decided is not seen then.
    const own = during.filter((one) => one.gateway === gateway && one.status === 200);
    facts.push(
      atMost(
        `${name}: admitted by gateway ${gateway + 1}, of ${quota} + ${quota}/s · t`,
        quota,
        mostAtOnce(own, quota),
      ),
    );
  }
  facts.push(
    atLeast(
      `${name}: admitted by both, of what two counters allow`,
      80,
      share(inAll, newer + older, fromMs, toMs),
      " %",
    ),
  );
  return facts;
}

function share(admitted: number, perSecond: number, fromMs: number, toMs: number): number {
  return (admitted / ((perSecond * (toMs - fromMs)) / 1000)) * 100;
}

/** Puts a policy that one gateway cannot get, and waits until the other has it. */
async function putAtOne(system: System, document: { name: string }): Promise<void> {
  const { status, body } = await system.api("PUT", `/apps/default/policies/${document.name}`, document);
  if (status !== 200) throw new Error(`the policy was not changed: ${status} ${body}`);
  const { revision } = JSON.parse(body);
  await until("the gateway that is connected has it", async () =>
    (await fleetOf(system)).gateways.some((gateway) => gateway.connected && gateway.revision >= revision),
  );
}

interface Fleet {
  readonly revision: number;
  readonly gateways: readonly { readonly connected: boolean; readonly revision: number }[];
}

async function fleetOf(system: System): Promise<Fleet> {
  return JSON.parse((await system.api("GET", "/gateways")).body);
}

async function framesSent(system: System): Promise<{ deltas: number; snapshots: number }> {
  const { body } = await ask(`${system.controlUrl}/metrics`, { headers: { authorization: `Bearer ${adminToken}` } });
  const count = (what: string) => Number(new RegExp(`^sluice_control_${what}_sent_total (\\d+)$`, "m").exec(body)?.[1]);
  return { deltas: count("deltas"), snapshots: count("snapshots") };
}

export const faults = [twoRevisions];
