// The order in which requests begin, in a time that passes only while a request has the thread.

import { describe, expect, it } from "vitest";
import { FairSchedule } from "../../../control-plane/src/http/fair-schedule.ts";
import { percentileOf } from "../../fixtures/clients/crowd.ts";

/** @returns what lets requests of an owner wait, each of which takes so long, and lets other time pass; and who has begun, in their order */
function world() {
  let nowMs = 0;
  const schedule = new FairSchedule(() => nowMs);
  const begun: string[] = [];
  const ask = async (owner: string, takesMs: number, network = owner) => {
    await schedule.turn([network, owner]);
    begun.push(owner);
    nowMs += takesMs;
  };
  const askAll = (owner: string, count: number, takesMs: number) =>
    Promise.all(Array.from({ length: count }, () => ask(owner, takesMs)));
  const round = () => new Promise((resolve) => setImmediate(resolve));
  const rounds = async (count: number) => {
    for (let i = 0; i < count; i++) await round();
  };
  const pass = (ms: number) => {
    nowMs += ms;
  };
  const timeMs = () => nowMs;
  return { schedule, begun, ask, askAll, pass, rounds, timeMs };
}

const counted = (begun: readonly string[], owner: string) => begun.filter((one) => one === owner).length;

describe("requests", () => {
  it("begin one in a round of the event loop", async () => {
    const { begun, askAll, rounds, schedule } = world();
    const all = askAll("one", 20, 1);
    for (let i = 1; i <= 10; i++) {
      await rounds(1);
      expect(Math.abs(begun.length - i)).toBeLessThanOrEqual(1);
    }
    await all;
    expect([begun.length, schedule.waiting]).toEqual([20, 0]);
  });

  it("begin in no round in which somebody connects, until 64 have passed", async () => {
    const { begun, askAll, rounds, schedule } = world();
    const all = askAll("one", 20, 1);
    const connect = async (count: number) => {
      for (let i = 0; i < count; i++) {
        schedule.noteConnection();
        await rounds(1);
      }
    };
    await connect(60);
    expect(begun).toHaveLength(0);
    await rounds(5);
    expect(begun.length).toBeGreaterThanOrEqual(4);
    const before = begun.length;
    await connect(65 * 10);
    expect(Math.abs(begun.length - before - 10)).toBeLessThanOrEqual(1);
    await all;
  });

  it("of somebody who has asked for nothing lately come before all that others have waiting", async () => {
    const { begun, ask, askAll, rounds } = world();
    const flood = [askAll("flood", 1_000, 3), askAll("other flood", 1_000, 3)];
    await rounds(20);
    const before = begun.length;
    await ask("quiet", 1);
    expect(begun.length - before).toBeLessThanOrEqual(2);
    await Promise.all(flood);
    expect(begun).toHaveLength(2_001);
  });

  it("of somebody who comes again and again, and uses less than their share, hardly wait for four floods", async () => {
    const { ask, pass, rounds, timeMs } = world();
    let isOver = false;
    let number = 0;
    const costsMs = [0.4, 0.7, 0.5, 12, 0.6, 0.3, 3];
    const flood = async (owner: string) => {
      while (!isOver) await ask(owner, costsMs[number++ % costsMs.length] as number);
    };
    const floods = Array.from({ length: 4 * 48 }, (_, i) => flood(`flood ${i % 4}`));
    const waitedMs: number[] = [];
    let nextMs = 0;
    for (let i = 0; timeMs() < 30_000; i++) {
      await rounds(1);
      // What the sockets take that are served between two requests is nobody's.
      pass([0.5, 2, 18, 1, 9, 0.3, 3, 1.5][i % 8] as number);
      if (timeMs() < nextMs) continue;
      nextMs = timeMs() + 25;
      const cameMs = timeMs();
      void ask("quiet", 0.4).then(() => waitedMs.push(timeMs() - cameMs));
    }
    isOver = true;
    await Promise.all(floods);
    expect(waitedMs.length).toBeGreaterThan(500);
    expect(
      percentileOf(
        waitedMs.toSorted((a, b) => a - b),
        99,
      ),
    ).toBeLessThan(30);
  });

  it.each([
    ["of one network", () => "flood", 40],
    ["of as many networks, of which some hundred wait", (owner: string) => owner, 8_000],
  ])(
    "of a flood in which each comes from another address %s let others have their share",
    async (_, networkOf, mostMs) => {
      const { ask, timeMs } = world();
      let isOver = false;
      let number = 0;
      const flood = async () => {
        while (!isOver) {
          const owner = `flood ${number++}`;
          await ask(owner, 3, networkOf(owner));
        }
      };
      const floods = Array.from({ length: 200 }, flood);
      const waitedMs: number[] = [];
      for (let i = 0; i < 50; i++) {
        const cameMs = timeMs();
        await ask("quiet", 3);
        waitedMs.push(timeMs() - cameMs);
      }
      isOver = true;
      await Promise.all(floods);
      expect(Math.max(...waitedMs)).toBeLessThan(mostMs);
    },
  );

  it("that go on come before those of the same owner that have not begun", async () => {
    const { begun, ask, askAll, rounds, schedule } = world();
    const flood = askAll("one", 100, 1);
    await rounds(10);
    const before = begun.length;
    await schedule.turn(["one", "one"], true);
    expect(begun.length - before).toBeLessThanOrEqual(1);
    await Promise.all([flood, ask("one", 1)]);
  });

  it("that go on again and again leave every second turn to those of the same owner that have not begun", async () => {
    const { begun, ask, schedule } = world();
    let isOver = false;
    const goOn = async () => {
      while (!isOver) {
        await schedule.turn(["one", "one"], true);
        begun.push("goes on");
      }
    };
    const all = Array.from({ length: 3 }, goOn);
    for (let i = 0; i < 5; i++) await ask("one", 8);
    isOver = true;
    await Promise.all(all);
    expect(begun.length).toBeLessThan(20);
  });

  it("get the same time of each owner, and not the same number", async () => {
    const { begun, askAll, rounds } = world();
    const all = [askAll("slow", 100, 40), askAll("fast", 4_000, 1)];
    await rounds(1_000);
    const ratio = counted(begun, "fast") / counted(begun, "slow");
    expect(ratio).toBeGreaterThan(30);
    expect(ratio).toBeLessThan(50);
    await Promise.all(all);
  });

  it("of somebody who always comes again when nothing of theirs waits are not the first each time", async () => {
    const { begun, ask, askAll } = world();
    const all = askAll("many", 2_000, 1);
    for (let i = 0; i < 30; i++) await ask("one by one", 20);
    // In the time of 30 requests of 20 ms each, the others had theirs.
    expect(counted(begun, "many")).toBeGreaterThan(400);
    await all;
  });

  it("begin in the order in which they come when nobody has waited, whatever was used before", async () => {
    const { begun, ask, askAll, rounds } = world();
    await askAll("one", 3, 10_000);
    await rounds(2);
    await Promise.all([ask("one", 1), ask("other", 1)]);
    expect(begun.slice(-2)).toEqual(["one", "other"]);
  });
});
