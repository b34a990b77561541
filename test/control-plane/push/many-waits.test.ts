// Requests that wait with ?wait are bounded, and others are answered meanwhile, however many wait.

import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { AppliedWaits } from "../../../control-plane/src/push/applied-waits.ts";
import { Fleet } from "../../../control-plane/src/push/fleet.ts";
import type { GatewayLink } from "../../../control-plane/src/push/gateway-link.ts";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import {
  type Answer,
  adminToken,
  onePerSecond,
  type Running,
  send,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { until, untilPasses } from "../../fixtures/until.ts";

const books = "/apps/default/policies/books";
/** The answer to a request that does not wait, while the only gateway has reported nothing. */
const unreported = { gateways: 1, acked: 0, refused: 0 };
const reported = { gateways: 1, acked: 1, refused: 0 };

/** Puts what is already stored, and collects the answers as they come. */
function putAndWait(call: Running["call"], times: number, token: string, answers: Answer[]): Promise<unknown> {
  const one = async () => answers.push(await call("PUT", `${books}?wait=60s`, { body: onePerSecond, token }));
  return Promise.all(Array.from({ length: times }, one));
}

async function editorOf(call: Running["call"], app: string, name: string): Promise<string> {
  return (await call("POST", "/tokens?wait=0s", { body: { name, app, role: "editor" } })).body.token;
}

describe("requests that wait for the fleet", () => {
  it("are a hundred per token: one more is answered at once, with the count so far", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    await gateway.next("snapshot");
    const [ann, bob] = await Promise.all(["ann", "bob"].map((name) => editorOf(running.call, "default", name)));
    await running.call("PUT", books, { body: onePerSecond });
    const ofAnn: Answer[] = [];
    const ofBob: Answer[] = [];
    // Each request that waits asks once when it begins.
    const begun = vi.spyOn(running.app.fleet, "settled");
    const all = [putAndWait(running.call, 130, ann as string, ofAnn)];
    await untilPasses(() => expect(ofAnn).toHaveLength(30));
    for (const { status, body } of ofAnn) expect([status, body]).toEqual([200, { revision: 1, applied: unreported }]);
    // One token's bound does not affect another token.
    begun.mockClear();
    all.push(putAndWait(running.call, 1, bob as string, ofBob));
    await until("the request of bob waits", () => begun.mock.calls.length > 0);
    expect([ofAnn.length, ofBob.length]).toEqual([30, 0]);
    gateway.apply(await gateway.next("snapshot"));
    await Promise.all(all);
    expect(ofAnn.filter(({ body }) => body.applied.acked === 1)).toHaveLength(100);
    expect(ofBob[0]?.body).toEqual({ revision: 1, applied: reported });
    // The places are free again.
    await running.call("DELETE", books);
    await gateway.next("snapshot");
    await running.call("PUT", books, { body: onePerSecond });
    const again: Answer[] = [];
    begun.mockClear();
    const waiting = putAndWait(running.call, 100, ann as string, again);
    await until("all of them wait", () => begun.mock.calls.length >= 100);
    expect(again).toEqual([]);
    await gateway.next("snapshot").then(gateway.apply);
    await waiting;
    expect(again.filter(({ body }) => body.applied.acked === 1)).toHaveLength(100);
  });

  it("are checked together: what an event costs does not grow with how many wait", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    await gateway.next("snapshot");
    await running.call("PUT", books, { body: onePerSecond });
    const { fleet } = running.app;
    const looks = [vi.spyOn(fleet, "settled"), vi.spyOn(fleet, "applied")];
    const looked = () => looks.reduce((sum, { mock }) => sum + mock.calls.length, 0);
    const all = putAndWait(running.call, 50, adminToken, []);
    await untilPasses(() => expect(looked()).toBeGreaterThanOrEqual(50));
    const before = looked();
    for (let i = 0; i < 100; i++) {
      fleet.emit("progress");
      await setImmediate();
    }
    // One for the requests that wait, at each event, and one every 10 ms for the metric of pushes.
    expect(looked() - before).toBeLessThanOrEqual(150);
    gateway.apply(await gateway.next("snapshot"));
    await all;
  });

  it.each([
    ["every gateway has the revision", 60_000],
    ["their time is over", 50],
  ])("are answered ten at a time when %s, and others have their turn between", async (_, waitMs) => {
    const fleet = new Fleet(() => 0);
    const link = {} as GatewayLink;
    fleet.join({ type: "hello", gateway: "g1", version: "1", workers: 1, epoch: "e", revision: 1 }, link);
    const waits = new AppliedWaits(fleet, () => ({ epoch: "e", revision: 9 }));
    let turn = 0;
    const answeredIn: number[] = [];
    const revisions: number[] = [];
    const one = async (i: number) => {
      // The lowest revision does not come first.
      const revision = 9 - (i % 8);
      const asker = { tokenId: `t${i % 10}`, app: "a" };
      const applied = await waits.wait(revision, waitMs, asker, new AbortController().signal);
      answeredIn.push(turn);
      revisions.push(revision);
      return applied;
    };
    const all = Promise.all(Array.from({ length: 500 }, (_, i) => one(i)));
    // The gateway has applied all but the last revision, so requests that wait for that one stay unanswered.
    fleet.report("g1", link, { type: "applied", epoch: "e", revision: waitMs === 50 ? 1 : 8 });
    const reported = waitMs === 50 ? 500 : 500 - 63;
    for (; answeredIn.length < reported; turn++) await setImmediate();
    for (let i = 0; i < 3; i++, turn++) await setImmediate();
    expect(answeredIn).toHaveLength(reported);
    const times = new Map<number, number>();
    for (const each of answeredIn) times.set(each, (times.get(each) ?? 0) + 1);
    expect(Math.max(...times.values())).toBeLessThanOrEqual(10);
    if (waitMs === 60_000) expect(revisions).not.toContain(9);
    fleet.report("g1", link, { type: "applied", epoch: "e", revision: 9 });
    const acked = waitMs === 50 ? 0 : 1;
    for (const applied of await all) expect(applied).toEqual({ gateways: 1, acked, refused: 0 });
  });

  it("are a thousand in all: the app with the most gives way, and /healthz is answered meanwhile", async () => {
    const { url, longestTurnMs } = await startMeasuredProcess();
    const call: Running["call"] = (method, path, options = {}) => send(url, method, path, options);
    const gateway = await connectGateway({ url } as Running, "g1");
    await gateway.next("snapshot");
    await call("PUT", "/apps/shop");
    await gateway.next("snapshot");
    const editors = await Promise.all(Array.from({ length: 11 }, (_, i) => editorOf(call, "default", `e${i}`)));
    const shop = await editorOf(call, "shop", "shop");
    await call("PUT", books, { body: onePerSecond });
    await gateway.next("snapshot");

    let longestMs = 0;
    const longest: number[] = [];
    const turns: number[] = [];
    await longestTurnMs();
    let stopped = false;
    const probe = (async () => {
      while (!stopped) {
        const from = performance.now();
        expect((await call("GET", "healthz")).status).toBe(200);
        longestMs = Math.max(longestMs, performance.now() - from);
        await sleep(5);
      }
    })();
    const answers: Answer[] = [];
    const all: Promise<unknown>[] = [];
    for (const token of editors) {
      all.push(putAndWait(call, 100, token, answers));
      // The pause keeps this process from being busy with too many requests at once, since only the waiting is measured.
      await sleep(200);
    }
    await untilPasses(() => expect(answers).toHaveLength(100));
    for (const { status, body } of answers) expect([status, body.applied]).toEqual([200, unreported]);

    longest.push(longestMs);
    turns.push(await longestTurnMs());
    longestMs = 0;
    const ofShop = call("PUT", "/apps/shop/policies/books?wait=60s", { body: onePerSecond, token: shop });
    await untilPasses(() => expect(answers).toHaveLength(101));
    expect(answers[100]?.body.applied).toEqual(unreported);

    gateway.apply(await gateway.next("snapshot"));
    expect((await ofShop).body.applied).toEqual(reported);
    await Promise.all(all);
    expect(answers.filter(({ body }) => body.applied.acked === 1)).toHaveLength(999);
    stopped = true;
    await probe;
    longest.push(longestMs);
    turns.push(await longestTurnMs());
    const shown = (figures: readonly number[]) => figures.map((ms) => `${ms.toFixed(0)} ms`).join(" and ");
    console.log(
      `while 1,100 come and 1,000 are answered: /healthz at most ${shown(longest)}, longest turn ${shown(turns)}`,
    );
    // How long an answer takes also depends on the machine's load, a turn does not.
    for (const turnMs of turns) expect(turnMs).toBeLessThan(200);
  });
});
