// Tests when gateways are told how many there are: their shares of a limit depend on it while Redis is away.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Fleet, type Gateway } from "../../../control-plane/src/push/fleet.ts";
import { announceFleet } from "../../../control-plane/src/push/fleet-size.ts";
import type { GatewayLink } from "../../../control-plane/src/push/gateway-link.ts";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import { openSocket } from "../../fixtures/servers/gateway-double.ts";
import { untilPasses } from "../../fixtures/until.ts";

let fleet: Fleet;
let stop: () => void;
/** What each gateway was told, one number after the other. */
const told: Record<string, number[]> = {};
const links: Record<string, GatewayLink> = {};
const countedWithinMs = 101;

beforeEach(() => {
  vi.useFakeTimers();
  fleet = new Fleet(() => 0);
  stop = announceFleet(fleet);
});
afterEach(() => {
  stop();
  vi.useRealTimers();
  for (const id of Object.keys(told)) delete told[id];
});

function join(id: string): void {
  joinAtOnce(id);
  vi.advanceTimersByTime(countedWithinMs);
}

function joinAtOnce(id: string): void {
  const numbers: number[] = [];
  told[id] = numbers;
  const link = { send: (message: { gateways: number }) => numbers.push(message.gateways) } as unknown as GatewayLink;
  links[id] = link;
  fleet.join({ type: "hello", gateway: id, version: "1", workers: 1, epoch: "e", revision: 1 }, link);
}

const leave = (id: string) => fleet.leave(id, links[id] as GatewayLink);

it("more gateways are told at once to the new one, and to the others within a tenth of a second", () => {
  join("a");
  joinAtOnce("b");
  expect(told).toEqual({ a: [1], b: [2] });
  vi.advanceTimersByTime(countedWithinMs);
  expect(told).toEqual({ a: [1, 2], b: [2] });
});

it("of gateways that come together, each is told twice, however many they are", () => {
  const ids = Array.from({ length: 500 }, (_, i) => `g${i}`);
  for (const id of ids) joinAtOnce(id);
  vi.advanceTimersByTime(1_000);
  expect(new Set(ids.map((id) => told[id]?.at(-1)))).toEqual(new Set([500]));
  expect(Math.max(...ids.map((id) => told[id]?.length ?? 0))).toBe(2);
});

it("a gateway that comes back within three seconds kept its share", () => {
  for (const id of ["a", "b", "c"]) join(id);
  leave("c");
  vi.advanceTimersByTime(2_900);
  join("c");
  vi.advanceTimersByTime(10_000);
  expect(told).toEqual({ a: [1, 2, 3], b: [2, 3], c: [3] });
});

it("fewer gateways are told when each number has been smaller for three seconds", () => {
  for (const id of ["a", "b", "c"]) join(id);
  leave("c");
  vi.advanceTimersByTime(2_000);
  leave("b");
  vi.advanceTimersByTime(900);
  expect(told["a"]).toEqual([1, 2, 3]);
  vi.advanceTimersByTime(200);
  expect(told["a"]).toEqual([1, 2, 3, 2]);
  vi.advanceTimersByTime(2_000);
  expect(told["a"]).toEqual([1, 2, 3, 2, 1]);
});

it("a gateway that has just left keeps its share, although others left long before", () => {
  for (const id of ["a", "b", "c", "d"]) join(id);
  leave("d");
  vi.advanceTimersByTime(500);
  leave("c");
  vi.advanceTimersByTime(1_000);
  join("c");
  vi.advanceTimersByTime(1_950);
  leave("b");
  vi.advanceTimersByTime(100);
  expect(told["a"]).toEqual([1, 2, 3, 4, 3]);
});

it("gateways that leave one after the other are told of one after the other", () => {
  const ids = Array.from({ length: 20 }, (_, i) => `g${String(i).padStart(2, "0")}`);
  for (const id of ids) join(id);
  for (const id of ids.slice(1)) {
    leave(id);
    vi.advanceTimersByTime(2_500);
  }
  expect(told["g00"]?.at(-1)).toBeLessThanOrEqual(3);
});

it("a new gateway is told the number that the others hold", () => {
  for (const id of ["a", "b", "c"]) join(id);
  leave("c");
  leave("b");
  vi.advanceTimersByTime(1_000);
  join("d");
  expect(told["d"]).toEqual([3]);
  vi.advanceTimersByTime(3_100);
  expect(told["d"]).toEqual([3, 2]);
});

it("a gateway that moves to another control plane counts once, and its share stays", () => {
  for (const id of ["a", "b"]) join(id);
  leave("b");
  fleet.setElsewhere([{ id: "b" } as Gateway]);
  vi.advanceTimersByTime(10_000);
  expect(told["a"]).toEqual([1, 2]);
});

describe("eight hundred gateways that come back together", () => {
  it("take no long turn of the control plane, and learn their number", async () => {
    vi.useRealTimers();
    const plane = await startMeasuredProcess();
    const gateways: Awaited<ReturnType<typeof openSocket>>[] = [];
    while (gateways.length < 800) {
      gateways.push(...(await Promise.all(Array.from({ length: 40 }, () => openSocket(plane.url)))));
    }
    await plane.longestTurnMs();
    for (const [i, { say }] of gateways.entries()) {
      say({ type: "hello", gateway: `g${i}`, version: "1", workers: 1, epoch: "", revision: 0, protocol: 3 });
    }
    const numbers = ({ received }: { received: { type: string }[] }) => received.filter(({ type }) => type === "fleet");
    await untilPasses(() => {
      for (const gateway of gateways) expect(numbers(gateway).at(-1)).toMatchObject({ gateways: 800 });
    });
    expect(await plane.longestTurnMs()).toBeLessThan(200);
    // Each message to each of the others would be 320,000.
    expect(gateways.reduce((sum, gateway) => sum + numbers(gateway).length, 0)).toBeLessThan(40_000);
  });
});
