// Traffic by hour is kept for a month: the minutes of an hour are summed up once before they are forgotten, whichever of several control planes
// does it and whenever it is killed.

import { type Kysely, sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { sumOldestHour, writeTrafficMinute } from "../../../control-plane/src/storage/activity.ts";
import type { Tables } from "../../../control-plane/src/storage/tables.ts";
import {
  onePerSecond,
  type Running,
  send,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { connectGateway, type GatewayDouble } from "../../fixtures/servers/gateway-double.ts";
import { until, untilPasses } from "../../fixtures/until.ts";
import { newPlace, type Place, rowsIn, serverKinds } from "./database-servers.ts";
import { ServedProcess } from "./served-process.ts";

const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;
const none = { refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };

interface Point {
  readonly at: string;
  readonly admitted: number;
}

/** Reports what was admitted lately by the policy books. */
async function report(gateway: GatewayDouble, allowed: number): Promise<void> {
  const nowMs = Date.now();
  const policies = [{ app: "default", policy: "books", fromMs: nowMs - 500, allowed, ...none }];
  gateway.say({ type: "activity", nowMs, workers: [{ toMs: nowMs, policies, keys: [] }] });
  await gateway.untilHeard();
}

async function traffic(url: string, query: string) {
  const { body } = await send(url, "GET", `/apps/default/traffic?${query}`, {});
  return body as { since: string; step: string; complete: boolean; points: Point[] };
}

/** What was admitted in each hour. */
function byHour(points: readonly Point[]): Map<number, number> {
  const hours = new Map<number, number>();
  for (const { at, admitted } of points) {
    const hour = Math.floor(Date.parse(at) / hourMs);
    hours.set(hour, (hours.get(hour) ?? 0) + admitted);
  }
  return hours;
}

const minute = (admitted: number) =>
  JSON.stringify(["default/", "default/books"].map((name) => ({ name, counts: [admitted, 0, 0, 0, 0] })));

/** Stores a minute of books in each of these hours, one after the other from `fromMs` on. */
async function storeMinutes(database: Kysely<Tables>, fromMs: number, hours: number): Promise<void> {
  const values = Array.from({ length: hours * 60 }, (_, i) => ({ at: fromMs + i * minuteMs, traffic: minute(i + 1) }));
  for (let at = 0; at < values.length; at += 60) {
    await database
      .insertInto("traffic_minutes")
      .values(values.slice(at, at + 60))
      .execute();
  }
}

/** The row of an hour that says how many minutes there were. */
async function sums(minutes: AsyncIterable<unknown>) {
  const all = await Array.fromAsync(minutes);
  return [{ name: "default/", traffic: JSON.stringify({ name: "default/", counts: [all.length, 0, 0, 0, 0] }) }];
}

async function countOf(database: Kysely<Tables>, table: "traffic_minutes" | "traffic_hours"): Promise<number> {
  const { count } = await database
    .selectFrom(table)
    .select(sql<number>`count(*)`.as("count"))
    .executeTakeFirstOrThrow();
  return Number(count);
}

describe.each([["SQLite", undefined] as const, ...serverKinds])("with %s", (_, startServer) => {
  let server: DatabaseServer | undefined;
  beforeAll(async () => {
    server = await startServer?.({ hasty: true });
  });
  afterAll(() => server?.remove());

  const place = () => newPlace(server);
  const rows = (where: Place, table: string) => rowsIn(server, where, table);

  const putPolicy = (url: string) => send(url, "PUT", "/apps/default/policies/books", { body: onePerSecond });

  it("the hours of a day are the sums of its minutes, and stay so after the minutes are forgotten, and after a restart", async () => {
    const where = await place();
    // The clock stands at the beginning of an hour.
    let nowMs = Math.ceil(Date.now() / hourMs) * hourMs + minuteMs;
    const surroundings = { now: () => nowMs };
    let plane: Running = await startControlPlane(where, surroundings);
    const { database } = plane.app;
    await putPolicy(plane.url);
    const gateway = await connectGateway(plane, "gw-1");
    for (let i = 1; i <= 6; i++) {
      await report(gateway, i);
      nowMs += 25 * minuteMs;
    }
    const minutes = byHour((await traffic(plane.url, "since=24h&step=minute")).points);
    expect([...minutes.values()]).toEqual([1 + 2 + 3, 4 + 5, 6]);
    const withinAnHour = new Date(nowMs - 2 * hourMs).toISOString();
    const { since, points } = await traffic(plane.url, `since=${withinAnHour}&step=hour`);
    expect([since, byHour(points)]).toEqual([points[0]?.at, minutes]);
    for (const whose of ["", "&policy=books"]) {
      expect(byHour((await traffic(plane.url, `since=24h&step=hour${whose}`)).points)).toEqual(minutes);
    }
    nowMs += 26 * hourMs;
    await untilPasses(async () => expect(await countOf(database, "traffic_minutes")).toBe(0));
    for (const restart of [false, true]) {
      if (restart) {
        await plane.stop();
        plane = await startControlPlane(where, surroundings);
      }
      for (const whose of ["", "&policy=books"]) {
        const { step, points } = await traffic(plane.url, `since=3d${whose}`);
        expect([step, byHour(points)]).toEqual(["hour", minutes]);
      }
    }
  });

  it("hours are kept for 31 days, then deleted, and what is not known is said", async () => {
    const where = await place();
    let nowMs = Math.ceil(Date.now() / hourMs) * hourMs + 30 * minuteMs;
    const plane = await startControlPlane(where, { now: () => nowMs });
    const { database } = plane.app;
    await putPolicy(plane.url);
    await storeMinutes(database, nowMs - 30 * minuteMs, 3);
    const asked = async () => {
      const { since, complete, points } = await traffic(plane.url, "since=60d&policy=books&step=hour");
      return { ago: nowMs - Date.parse(since), complete, hours: points.length };
    };
    const ago = 31 * dayMs + 30 * minuteMs;
    // It is older than the table of hours, as after an upgrade.
    await database.updateTable("apps").set({ created_at: 0 }).execute();
    expect(await asked()).toEqual({ ago, complete: false, hours: 0 });
    nowMs += 31 * dayMs;
    // No control plane has run for most of the month.
    await untilPasses(async () => expect(await asked()).toEqual({ ago, complete: false, hours: 3 }));
    nowMs += 2 * hourMs;
    expect(await asked()).toEqual({ ago, complete: false, hours: 1 });
    nowMs += 2 * dayMs;
    // Since when hours are known is kept.
    await untilPasses(async () => expect(await countOf(database, "traffic_hours")).toBe(1));
    expect(await asked()).toEqual({ ago, complete: false, hours: 0 });
  });

  it("says from when on all hours are known, if no control plane ran for more than a day", async () => {
    let nowMs = Math.ceil(Date.now() / hourMs) * hourMs;
    const surroundings = { now: () => nowMs };
    const where = await place();
    let plane = await startControlPlane(where, surroundings);
    const startedMs = nowMs;
    // It is older than the table of hours.
    await plane.app.database.updateTable("apps").set({ created_at: 0 }).execute();
    const isCompleteSince = async (sinceMs: number) =>
      (await traffic(plane.url, `step=hour&since=${new Date(sinceMs).toISOString()}`)).complete;
    const restartAfter = async (ms: number) => {
      await plane.stop();
      nowMs += ms;
      plane = await startControlPlane(where, surroundings);
    };
    const known = async () => {
      const database = plane.app.database;
      const rows = await database.selectFrom("traffic_hours").select("traffic").where("name", "=", "").execute();
      return Number(rows[0]?.traffic) + dayMs;
    };
    await untilPasses(async () => expect(await known()).toBe(startedMs));
    await restartAfter(23 * hourMs);
    await untilPasses(async () => expect(await known()).toBe(nowMs));
    expect(await isCompleteSince(startedMs)).toBe(true);
    expect(await isCompleteSince(startedMs - 2 * dayMs)).toBe(false);
    await restartAfter(26 * hourMs);
    await untilPasses(async () => expect(await known()).toBe(nowMs));
    expect(await isCompleteSince(nowMs - 26 * hourMs)).toBe(false);
    expect(await isCompleteSince(nowMs - dayMs)).toBe(true);
  });

  it("an hour is in answers while it cannot be summed up", async () => {
    let nowMs = Math.ceil(Date.now() / hourMs) * hourMs + minuteMs;
    const plane = await startControlPlane(await place(), { now: () => nowMs });
    const { database } = plane.app;
    await putPolicy(plane.url);
    const gateway = await connectGateway(plane, "gw-1");
    const forget = vi.spyOn(plane.app.activity, "forget");
    let rounds = 0;
    const pass = async (ms: number) => {
      nowMs += ms;
      rounds += 1;
      await untilPasses(() => expect(forget).toHaveBeenCalledTimes(rounds));
    };
    await report(gateway, 7);
    const atMs = nowMs - (nowMs % hourMs);
    await pass(minuteMs);
    expect(await countOf(database, "traffic_minutes")).toBe(1);
    const broken = { at: atMs + 59 * minuteMs, traffic: "no JSON" };
    await database.insertInto("traffic_minutes").values(broken).execute();
    const asked = async () => {
      const { complete, points } = await traffic(
        plane.url,
        `step=hour&policy=books&since=${new Date(atMs).toISOString()}`,
      );
      return { complete, points: [...byHour(points).values()] };
    };
    await pass(13 * hourMs);
    await pass(13 * hourMs);
    expect(await asked()).toEqual({ complete: true, points: [7] });
    await database.deleteFrom("traffic_minutes").where("at", "=", broken.at).execute();
    await untilPasses(async () => expect(await countOf(database, "traffic_minutes")).toBe(0));
    await pass(minuteMs);
    expect(await asked()).toEqual({ complete: true, points: [7] });
  });

  it("minutes of an hour that cannot be summed up stay, and a minute of an hour that was summed up is not stored again", async () => {
    const plane = await startControlPlane(await place());
    const { database } = plane.app;
    const fromMs = Math.ceil(Date.now() / hourMs) * hourMs;
    await storeMinutes(database, fromMs, 1);
    const killed = async () => {
      throw new Error("killed");
    };
    await expect(sumOldestHour(database, fromMs + hourMs, killed)).rejects.toThrow("killed");
    expect(await countOf(database, "traffic_minutes")).toBe(60);
    expect(await sumOldestHour(database, fromMs, sums)).toBe(false);
    expect(await sumOldestHour(database, fromMs + hourMs, sums)).toBe(true);
    await writeTrafficMinute(database, fromMs + minuteMs, () => minute(1));
    await writeTrafficMinute(database, fromMs + hourMs, () => minute(1));
    expect(await countOf(database, "traffic_minutes")).toBe(1);
    // An older version of Sluice stores it nevertheless.
    await storeMinutes(database, fromMs, 1);
    expect(await sumOldestHour(database, fromMs + hourMs, sums)).toBe(true);
    const [row] = await database.selectFrom("traffic_hours").select("traffic").where("name", "=", "default/").execute();
    expect(JSON.parse(row?.traffic ?? "").counts[0]).toBe(60);
  });

  it("others write while an hour is summed up: what they change of it is summed up later, and what they have summed up stays", async () => {
    const plane = await startControlPlane(await place());
    const { database } = plane.app;
    const fromMs = Math.ceil(Date.now() / hourMs) * hourMs;
    await storeMinutes(database, fromMs, 1);
    const sumsAnd = (others: () => Promise<unknown>) => async (minutes: AsyncIterable<unknown>) => {
      const rows = await sums(minutes);
      await others();
      return rows;
    };
    const summed = async () => {
      const rows = await database.selectFrom("traffic_hours").select("traffic").where("name", "!=", "").execute();
      return rows.map(({ traffic }) => JSON.parse(traffic).counts[0]);
    };
    const untilMs = fromMs + hourMs;
    for (const late of [() => minute(1_000), () => minute(1_000_000)]) {
      const others = () => writeTrafficMinute(database, fromMs + minuteMs, late);
      expect(await sumOldestHour(database, untilMs, sumsAnd(others))).toBe(true);
      expect([await summed(), await countOf(database, "traffic_minutes")]).toEqual([[], 60]);
    }
    const others = () => sumOldestHour(database, untilMs, sums);
    expect(await sumOldestHour(database, untilMs, sumsAnd(others))).toBe(true);
    expect([await summed(), await countOf(database, "traffic_minutes")]).toEqual([[60], 0]);
  });

  it("each minute counts once, although control planes are killed while they sum up", async () => {
    const where = await place();
    const hours = 8;
    const fromMs = Math.floor(Date.now() / hourMs) * hourMs - 2 * dayMs;
    const first = await startControlPlane(where);
    await putPolicy(first.url);
    await first.app.database.updateTable("apps").set({ created_at: fromMs }).execute();
    await storeMinutes(first.app.database, fromMs, hours);
    await first.stop();
    const started = async () =>
      ServedProcess.start(server === undefined ? where : { ...where, SLUICE_DATA_DIR: await temporaryDir() });
    for (let kills = 0; kills < 2; kills++) {
      const stored = await rows(where, "traffic_hours");
      const planes = await Promise.all(Array.from({ length: server === undefined ? 1 : 2 }, started));
      await until("an hour is summed up", async () => (await rows(where, "traffic_hours")) > stored);
      await Promise.all(planes.map((plane) => plane.stop("SIGKILL")));
    }
    expect(await rows(where, "traffic_minutes")).toBeGreaterThan(0);
    const { url } = await started();
    await untilPasses(async () => expect(await rows(where, "traffic_minutes")).toBe(0));
    const { points } = await traffic(url, "since=3d&policy=books&step=hour");
    const sumOf = (hour: number) => 60 * (hour * 60 + 30.5);
    expect(points.map(({ admitted }) => admitted)).toEqual(Array.from({ length: hours }, (_, hour) => sumOf(hour)));
  });
});
