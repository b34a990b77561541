// Windows of the calendar over their borders, with the real gateway and Redis, on a clock that the test sets: the day in autumn that has 25
// hours in Berlin, and a month that begins on its 31st.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { SetClock } from "../fixtures/servers/set-clock.ts";
import { System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

const seconds = (text: string) => Date.parse(text) / 1000;
const hour = 3600;
/** Berlin's clocks are put back at 01:00 UTC. */
const dayBegins = seconds("2026-10-24T22:00:00Z");
const dayEnds = seconds("2026-10-25T23:00:00Z");

const kinds = [
  { name: "day-of-a-node", more: { scope: "node" }, places: [0, 0, 0] },
  { name: "day-in-redis", more: { scope: "cluster" }, places: [0, 1, 0] },
  { name: "day-on-lease", more: { scope: "cluster", consistency: "leased" }, places: [0, 1, 0] },
];

const clock = new SetClock(dayBegins);
let system: System;
/** Policies are stored while the clock stands: a jump may move a push socket from one worker to another. */
beforeAll(async () => {
  system = await System.start({ gateways: 2, workers: 2, redis: true, clock });
  const berlin = { name: "daily", algorithm: "fixed-window", quota: 3, window: "day", timezone: "Europe/Berlin" };
  for (const { name, more } of kinds)
    await system.put({ name, match: { paths: [`/${name}`] }, limits: [berlin], ...more });
  const monthly = { name: "monthly", algorithm: "fixed-window", quota: 1, window: "month", anchor: 31 };
  await system.put({ name: "month", match: { paths: ["/month"] }, limits: [monthly], scope: "cluster" });
  const yearly = { name: "yearly", algorithm: "fixed-window", quota: 2, window: "year", timezone: "Asia/Shanghai" };
  await system.put({ name: "year", match: { paths: ["/year"] }, limits: [yearly], scope: "cluster" });
});
afterAll(async () => {
  await system?.stop();
  clock.remove();
});

const askAt = (place: number, path: string) => ask(`${system.gateways[place]?.url}${path}`);

async function statusesAt(path: string, places: readonly number[]): Promise<number[]> {
  const statuses: number[] = [];
  for (const place of places) statuses.push((await askAt(place, path)).status);
  return statuses;
}

describe.each(kinds)("a day of 25 hours: $name", ({ name, places }) => {
  const path = `/${name}`;

  it("counts until its last second, tells the real time that is left, and begins anew", async () => {
    clock.set(dayBegins);
    const first = await askAt(places[0] as number, path);
    expect(first.status).toBe(200);
    expect(first.headers).toMatchObject({
      "ratelimit-policy": '"daily";q=3',
      ratelimit: `"daily";r=2;t=${25 * hour}`,
      "x-ratelimit-reset": `${25 * hour}`,
    });
    clock.set(dayBegins + 24 * hour + 1800);
    expect(await statusesAt(path, places)).toEqual([200, 200, 429]);
    clock.set(dayEnds - 1);
    const last = await askAt(places[1] as number, path);
    expect([last.status, last.headers["ratelimit"]]).toEqual([429, '"daily";r=0;t=1']);
    clock.set(dayEnds);
    // A gateway remembers for a moment that a lease was refused, by a clock that goes on.
    await until("units at the one gateway", async () => (await askAt(places[1] as number, path)).status === 200);
    await until("units at the other", async () => (await askAt(places[0] as number, path)).status === 200);
    expect(await statusesAt(path, [...places])).toEqual([200, 429, 429]);
    const refused = await askAt(places[0] as number, path);
    expect(refused.headers["retry-after"]).toBe(`${24 * hour}`);
  });
});

it("a month from its 31st begins on the last day of February", async () => {
  clock.set(seconds("2027-02-27T23:59:59Z"));
  expect(await statusesAt("/month", [0, 1])).toEqual([200, 429]);
  clock.set(seconds("2027-02-28T00:00:00Z"));
  const begun = await askAt(1, "/month");
  expect([begun.status, begun.headers["ratelimit"]]).toEqual([200, `"monthly";r=0;t=${31 * 24 * hour}`]);
});

it("an operator reads, tops up and resets the counter of a window of the calendar", async () => {
  clock.set(seconds("2027-05-10T12:00:00Z"));
  // The control plane goes by the machine's own clock: Redis' clock decides in which window the counter is.
  expect(await statusesAt("/year", [0, 1, 0])).toEqual([200, 200, 429]);
  const read = await system.api("GET", "/apps/default/counters?policy=year");
  expect(JSON.parse(read.body)).toMatchObject({ limits: [{ name: "yearly", limit: 2, used: 2, remaining: 0 }] });
  await system.api("POST", "/apps/default/counters", { policy: "year", units: 1 });
  expect(await statusesAt("/year", [1, 0])).toEqual([200, 429]);
  await system.api("DELETE", "/apps/default/counters?policy=year");
  expect(await statusesAt("/year", [0, 1, 0])).toEqual([200, 200, 429]);
});
