// Tests what npm run soak promises about its seed, and that its criteria find growth.

import { expect, it } from "vitest";
import { flatCount, flatMemory, quartersOf } from "./expectations.ts";
import { otherFaults, quietMs, redisFaults, scheduleOf } from "./schedule.ts";

const halfAnHourMs = 30 * 60_000;

it("the schedule is the same for the same seed, and another for another", () => {
  expect(scheduleOf(7, halfAnHourMs)).toEqual(scheduleOf(7, halfAnHourMs));
  expect(scheduleOf(8, halfAnHourMs)).not.toEqual(scheduleOf(7, halfAnHourMs));
});

it("the schedule has every fault several times in half an hour, with quiet behind each step", () => {
  const steps = scheduleOf(7, halfAnHourMs);
  for (const fault of [...redisFaults, ...otherFaults]) {
    expect(steps.filter(({ faults }) => faults.includes(fault)).length, fault).toBeGreaterThanOrEqual(3);
  }
  for (const [i, { atMs, lastsMs, faults }] of steps.entries()) {
    expect(new Set(faults).size).toBe(faults.length);
    const nextMs = steps[i + 1]?.atMs ?? halfAnHourMs;
    expect(nextMs - atMs - lastsMs).toBeGreaterThanOrEqual(quietMs.least);
  }
});

it("the schedule leaves the control plane alone in the second half", () => {
  const restarts = scheduleOf(7, halfAnHourMs).filter(({ faults }) => faults.includes("control plane restarted"));
  expect(restarts.length).toBeGreaterThan(0);
  for (const { atMs } of restarts) expect(atMs).toBeLessThanOrEqual(halfAnHourMs / 2);
});

it("the criteria find memory that grows, and allow it to go up and down", () => {
  const samples = Array.from({ length: 400 }, (_, i) => i);
  const memory = (kb: (i: number) => number) => flatMemory("memory", quartersOf(samples, 1, kb));
  expect(memory((i) => 50_000 + (i % 20) * 1000).ok).toBe(true);
  expect(memory((i) => 50_000 + i * 40 + (i % 20) * 1000).ok).toBe(false);
});

it("the criteria find sockets that are left open", () => {
  const samples = Array.from({ length: 400 }, (_, i) => i);
  expect(
    flatCount(
      "sockets",
      quartersOf(samples, 1, (i) => 20 + (i % 3)),
      4,
    ).ok,
  ).toBe(true);
  expect(
    flatCount(
      "sockets",
      quartersOf(samples, 1, (i) => 20 + Math.floor(i / 20)),
      4,
    ).ok,
  ).toBe(false);
});
