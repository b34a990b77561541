// Control planes on a database server, which several of them may share. The rest of the API is tested on each database by the
// projects "on mariadb" and "on postgres" (vitest.config.ts).

import { protocolVersion } from "@sluice/limiter/protocol/push-messages.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import {
  adminToken,
  onePerSecond,
  type Running,
  send,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";
import { nameOf, serverKinds } from "./database-servers.ts";
import { ServedProcess } from "./served-process.ts";

describe.each(serverKinds)("on %s", (_, startServer) => {
  let server: DatabaseServer;
  beforeAll(async () => {
    server = await startServer({ hasty: true });
  });
  afterAll(() => server.remove());

  async function two(): Promise<[Running, Running]> {
    const SLUICE_DATABASE_URL = await server.createDatabase();
    return [await startControlPlane({ SLUICE_DATABASE_URL }), await startControlPlane({ SLUICE_DATABASE_URL })];
  }

  it("two that start at once on an empty database migrate it once, and make one admin token", async () => {
    const SLUICE_DATABASE_URL = await server.createDatabase();
    const both = [1, 2].map(() => ServedProcess.start({ SLUICE_DATABASE_URL, SLUICE_ADMIN_TOKEN: "" }));
    const [first, second] = (await Promise.all(both)) as [ServedProcess, ServedProcess];
    const made = [first, second].flatMap(({ output }) => /admin token \(shown once\): (\S+)/.exec(output)?.[1] ?? []);
    expect(made).toHaveLength(1);
    for (const { url } of [first, second]) {
      const answer = await send(url, "GET", "/apps", { token: made[0] });
      expect(answer.body.apps).toMatchObject([{ name: "default" }]);
    }
  });

  it("a change by one reaches the gateways of the other, and ?wait counts all gateways", async () => {
    const [one, other] = await two();
    const here = await connectGateway(one, "here");
    const there = await connectGateway(other, "there");
    for (const gateway of [here, there]) gateway.apply(await gateway.next("snapshot"));
    // Both gateways learn that they are two.
    await untilPasses(() => {
      for (const { received } of [here, there])
        expect(received).toContainEqual({ type: "fleet", gateways: 2, takesActivity: true, protocol: protocolVersion });
    });

    const put = one.call("PUT", "/apps/default/policies/books?wait=30s", { body: { ...onePerSecond, scope: "node" } });
    here.apply(await here.next("snapshot"));
    const pushed = await there.next("snapshot");
    there.apply(pushed);
    expect((await put).body).toEqual({ revision: 1, applied: { gateways: 2, acked: 2, refused: 0 } });
    for (const plane of [one, other]) {
      // One control plane learns of what the other's gateways do twice a second at least.
      await untilPasses(async () => {
        const { body } = await plane.call("GET", "/gateways");
        expect(body.connected).toBe(2);
        expect(body.gateways).toMatchObject([
          { id: "here", connected: true, revision: 1 },
          { id: "there", connected: true, revision: 1 },
        ]);
      });
    }

    // Its gateways count until they may have come to another one.
    await other.stop();
    expect((await one.call("GET", "/gateways")).body.connected).toBe(2);
    await untilPasses(async () => expect((await one.call("GET", "/gateways")).body.connected).toBe(1));
  });

  it("what gateways report to one is shown by all, however their clocks differ, and once after a restart", async () => {
    const SLUICE_DATABASE_URL = await server.createDatabase();
    const ahead = { now: () => Date.now() + 3_600_000 };
    const one = await startControlPlane({ SLUICE_DATABASE_URL });
    const other = await startControlPlane({ SLUICE_DATABASE_URL }, ahead);
    await one.call("PUT", "/apps/default/policies/books", { body: { ...onePerSecond, key: ["ip"] } });
    const shown = async (plane: Running, query = "") => {
      const { points } = (await plane.call("GET", `/apps/default/traffic?policy=books${query}`)).body;
      const { admitted } = (await plane.call("GET", "/apps/default/top?policy=books")).body;
      const sum = points.reduce((total: number, point: { admitted: number }) => total + point.admitted, 0);
      return `${sum} ${admitted[0]?.atLeast ?? 0}`;
    };
    const ofLastHour = async (plane: Running) =>
      (await plane.call("GET", "/apps/default/top?policy=books&window=hour")).body.admitted[0]?.atLeast;
    for (const [plane, allowed] of [[one, 3] as const, [other, 4] as const]) {
      const gateway = await connectGateway(plane, `of-${allowed}`);
      const nowMs = Date.now();
      const of = { app: "default", policy: "books" };
      const counts = { allowed, refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };
      const keys = { keys: ["1:192.0.2.1"], counts: [allowed], error: 0, unlisted: 0 };
      gateway.say({
        type: "activity",
        nowMs,
        workers: [
          {
            toMs: nowMs,
            policies: [{ ...of, fromMs: nowMs - 500, ...counts }],
            keys: [{ ...of, key: ["ip/32/64"], result: "admitted", sinceMs: nowMs, ...keys }],
          },
        ],
      });
    }
    for (const plane of [one, other]) {
      await untilPasses(async () => expect(await shown(plane)).toBe("7 7"));
      await untilPasses(async () => expect(await ofLastHour(plane)).toBe(7));
    }
    await one.stop();
    const again = await startControlPlane({ SLUICE_DATABASE_URL });
    expect(await shown(again, "&since=2h")).toBe("7 0");
    expect(await ofLastHour(again)).toBe(7);
  });

  it("a gateway that reports as many keys as it can takes little room, and keeps no report of others from being relayed", async () => {
    const SLUICE_DATABASE_URL = await server.createDatabase();
    const one = await startMeasuredProcess({ SLUICE_DATABASE_URL });
    const other = await startMeasuredProcess({ SLUICE_DATABASE_URL });
    await send(one.url, "PUT", "/apps/default/policies/books", { body: onePerSecond });
    const [liar, honest] = [await connectGateway(one, "liar"), await connectGateway(one, "honest")];
    const of = { app: "default", policy: "p", key: ["ip"], result: "admitted", sinceMs: Date.now() };
    // Control characters are longer in JSON.
    const keys = Array.from({ length: 150 }, (_, i) => `1:${i}`.padEnd(200, "\u0001"));
    const list = { ...of, keys, counts: Array(150).fill(1), error: 0, unlisted: 0 };
    const workers = [{ toMs: Date.now(), policies: [], keys: Array(5).fill(list) }];
    const lie = JSON.stringify({ type: "activity", nowMs: Date.now(), workers });
    const counts = { allowed: 1, refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };
    const database = nameOf(SLUICE_DATABASE_URL);
    const room = async () => {
      const query = "select sum(length(report)) as bytes, max(length(report)) as largest from relayed_activity";
      const [row] = await server.query(query, database);
      return { bytes: Number(row?.["bytes"] ?? 0), largest: Number(row?.["largest"] ?? 0) };
    };
    const turnsMs: number[] = [];
    let relayed = 0;
    for (let round = 0; round < 8; round++) {
      for (const { longestTurnMs } of [one, other]) await longestTurnMs();
      for (let i = 0; i < 15; i++) liar.say(lie);
      const nowMs = Date.now();
      const policies = [{ app: "default", policy: "books", fromMs: nowMs, ...counts }];
      honest.say({ type: "activity", nowMs, workers: [{ toMs: nowMs, policies, keys: [] }] });
      await untilPasses(async () => {
        const { body } = await send(other.url, "GET", "/apps/default/traffic?policy=books&since=5m&step=minute", {});
        relayed = body.points.reduce((sum: number, { admitted }: { admitted: number }) => sum + admitted, 0);
        expect([relayed, body.complete]).toEqual([round + 1, true]);
      });
      turnsMs.push(Math.max(await one.longestTurnMs(), await other.longestTurnMs()));
    }
    const top = async ({ url }: { url: string }) =>
      (await send(url, "GET", "/apps/default/top?policy=books", {})).body.complete;
    // Keys were left out of what the other one was told.
    expect([await top(one), await top(other)]).toEqual([true, false]);
    const { bytes, largest } = await room();
    expect(bytes).toBeGreaterThan(1_000_000);
    // Rounds of control planes begin each second; none takes over more than a megabyte of a gateway.
    expect(bytes).toBeLessThan(20_000_000);
    expect(largest).toBeLessThan(300_000);
    expect(Math.min(...turnsMs)).toBeLessThan(20);
    await untilPasses(async () => expect(await room()).toEqual({ bytes: 0, largest: 0 }));
  });

  it("a token that one deletes is invalid at the other at once", async () => {
    const [one, other] = await two();
    const made = await one.call("POST", "/tokens", { body: { name: "ann", app: "default", role: "editor" } });
    const { token, id } = made.body;
    expect((await other.call("GET", "/apps/default/policies", { token })).status).toBe(200);
    expect((await one.call("DELETE", `/tokens/${id}`)).status).toBe(200);
    expect((await other.call("GET", "/apps/default/policies", { token })).status).toBe(401);
  });

  it("a database that goes away and comes back: the API says so, gateways keep their policies, and work goes on", async () => {
    const own = await startServer();
    onFinished(() => own.remove());
    const SLUICE_DATABASE_URL = await own.createDatabase();
    const plane = await startControlPlane({ SLUICE_DATABASE_URL });
    const gateway = await connectGateway(plane, "steady");
    gateway.apply(await gateway.next("snapshot"));
    await own.stop("SIGKILL");
    const refused = await plane.call("PUT", "/apps/default/policies/books", { body: onePerSecond });
    expect(refused.body).toMatchObject({ status: 503, code: "database-unreachable" });
    expect((await plane.call("GET", "readyz")).body).toMatchObject({ status: 503, code: "not-ready" });
    expect((await plane.call("GET", "healthz")).status).toBe(200);
    expect(gateway.socket.readyState).toBe(gateway.socket.OPEN);

    await own.start();
    await untilPasses(async () => {
      expect((await plane.call("PUT", "/apps/default/policies/books", { body: onePerSecond })).status).toBeLessThan(
        300,
      );
    });
    expect((await gateway.next("snapshot")).revision).toBe(1);
    // What the database answered holds for half a second.
    await untilPasses(async () => {
      expect((await plane.call("GET", "readyz")).body).toMatchObject({ status: "ok", storage: "ok" });
    });
  });

  it("a start waits for a database that starts later, and says so", async () => {
    const own = await startServer();
    onFinished(() => own.remove());
    const SLUICE_DATABASE_URL = await own.createDatabase();
    await own.stop();
    const starting = await ServedProcess.start({ SLUICE_DATABASE_URL }, /^sluice: waiting for the database/m);
    expect(starting.url).toBe("");
    await own.start();
    await untilPasses(() => expect(starting.url).not.toBe(""));
    expect((await send(starting.url, "GET", "/apps", { token: adminToken })).status).toBe(200);
  });

  it("a user or a database that the server does not know ends the start with the reason, without the password", async () => {
    const url = await server.createDatabase();
    const unknown = url.replace(/sluice_\w+$/, "no_such").replace("@", ":secret-password@");
    const failed = ServedProcess.start({ SLUICE_DATABASE_URL: unknown, SLUICE_DATA_DIR: await temporaryDir() });
    await expect(failed).rejects.toThrow(/SLUICE_DATABASE_URL: expected a user and a database that the server knows/);
    await expect(failed).rejects.not.toThrow(/secret-password/);
  });
});
