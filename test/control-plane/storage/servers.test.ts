// Control planes on a database server, which several of them may share. The rest of the API is tested on each database by the
// projects "on mariadb" and "on postgres" (vitest.config.ts).

import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  adminToken,
  onePerSecond,
  type Running,
  send,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { MariadbServer } from "../../fixtures/servers/mariadb-server.ts";
import { PostgresServer } from "../../fixtures/servers/postgres-server.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { ServedProcess } from "./served-process.ts";

const kinds = [
  ["MariaDB", () => MariadbServer.start()],
  ["PostgreSQL", () => PostgresServer.start()],
] as const;

/** As many as an issue asks for take a minute; every run of the tests makes some of them. */
const racingWrites = Number(process.env["SLUICE_RACING_WRITES"] ?? 1_000);

describe.each(kinds)("on %s", (_, startServer) => {
  let server: MariadbServer | PostgresServer;
  beforeAll(async () => {
    server = await startServer();
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

  it("a change by one reaches the gateways of the other within a second, and ?wait counts all gateways", async () => {
    const [one, other] = await two();
    const here = await connectGateway(one, "here");
    const there = await connectGateway(other, "there");
    for (const gateway of [here, there]) gateway.apply(await gateway.next("snapshot"));
    // Both gateways learn that they are two.
    await vi.waitFor(() => {
      for (const { received } of [here, there]) expect(received).toContainEqual({ type: "fleet", gateways: 2 });
    });

    const beganMs = performance.now();
    const put = one.call("PUT", "/apps/default/policies/books?wait=5s", { body: onePerSecond });
    here.apply(await here.next("snapshot"));
    const pushed = await there.next("snapshot");
    expect(performance.now() - beganMs).toBeLessThan(1_000);
    there.apply(pushed);
    expect((await put).body).toEqual({ revision: 1, applied: { gateways: 2, acked: 2, refused: 0 } });
    expect(performance.now() - beganMs).toBeLessThan(2_000);
    for (const plane of [one, other]) {
      const { body } = await plane.call("GET", "/gateways");
      expect(body.connected).toBe(2);
      expect(body.gateways).toMatchObject([
        { id: "here", connected: true, revision: 1 },
        { id: "there", connected: true, revision: 1 },
      ]);
    }

    await other.stop();
    await vi.waitFor(async () => expect((await one.call("GET", "/gateways")).body.connected).toBe(1), 3_000);
  });

  it("gateways of a control plane that was killed are not counted after five seconds", async () => {
    const SLUICE_DATABASE_URL = await server.createDatabase();
    const one = await startControlPlane({ SLUICE_DATABASE_URL });
    const killed = await ServedProcess.start({ SLUICE_DATABASE_URL });
    const there = await connectGateway({ url: killed.url } as Running, "there");
    there.apply(await there.next("snapshot"));
    await vi.waitFor(async () => expect((await one.call("GET", "/gateways")).body.connected).toBe(1), 5_000);
    await killed.stop("SIGKILL");
    await vi.waitFor(async () => expect((await one.call("GET", "/gateways")).body.connected).toBe(0), 8_000);
  });

  it("a token that one deletes is invalid at the other at once", async () => {
    const [one, other] = await two();
    const made = await one.call("POST", "/tokens", { body: { name: "ann", app: "default", role: "editor" } });
    const { token, id } = made.body;
    expect((await other.call("GET", "/apps/default/policies", { token })).status).toBe(200);
    expect((await one.call("DELETE", `/tokens/${id}`)).status).toBe(200);
    expect((await other.call("GET", "/apps/default/policies", { token })).status).toBe(401);
  });

  it(`no update is lost in ${racingWrites} racing writes, and revisions have no gaps`, async () => {
    const planes = await two();
    const names = ["a", "b", "c", "d"];
    for (const name of names) await planes[0].call("PUT", `/apps/default/policies/${name}`, { body: onePerSecond });
    const accepted = new Map<string, number>(names.map((name) => [name, 0]));
    const statuses = new Map<number, number>();
    let started = 0;
    // Each reads a policy, and puts it back with a quota of one more, under the condition that nobody has changed it.
    const worker = async (plane: Running, seed: number) => {
      for (let turn = seed; started < racingWrites; turn++) {
        started += 1;
        const name = names[turn % names.length] as string;
        const path = `/apps/default/policies/${name}`;
        const { body, headers } = await plane.call("GET", path);
        const [limit] = body.limits;
        const next = { ...onePerSecond, limits: [{ ...limit, quota: limit.quota + 1 }] };
        const answer = await plane.call("PUT", path, {
          body: next,
          headers: { "if-match": headers.get("etag") ?? "" },
        });
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        if (answer.status === 200) accepted.set(name, (accepted.get(name) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: 16 }, (_, i) => worker(planes[i % 2] as Running, i >> 1)));
    expect([...statuses.keys()].sort()).toEqual([200, 412]);
    for (const name of names) {
      const { body } = await planes[1].call("GET", `/apps/default/policies/${name}`);
      expect(body.limits[0].quota).toBe(1 + (accepted.get(name) ?? 0));
    }
    const total = names.length + (statuses.get(200) ?? 0);
    const numbers: number[] = [];
    for (let before = ""; ; ) {
      const { body } = await planes[0].call("GET", `/revisions?limit=500${before}`);
      numbers.push(...body.revisions.map(({ n }: { n: number }) => n));
      if (body.next === undefined) break;
      before = `&before=${body.next}`;
    }
    expect(numbers).toEqual(Array.from({ length: total }, (_, i) => total - i));
  }, 300_000);

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
    await vi.waitFor(async () => {
      expect((await plane.call("PUT", "/apps/default/policies/books", { body: onePerSecond })).status).toBeLessThan(
        300,
      );
    }, 10_000);
    expect((await gateway.next("snapshot")).revision).toBe(1);
    // What the database answered holds for half a second.
    await vi.waitFor(async () => {
      expect((await plane.call("GET", "readyz")).body).toMatchObject({ status: "ok", storage: "ok" });
    }, 10_000);
  });

  it("a start waits for a database that starts later, and says so", async () => {
    const own = await startServer();
    onFinished(() => own.remove());
    const SLUICE_DATABASE_URL = await own.createDatabase();
    await own.stop();
    const starting = ServedProcess.start({ SLUICE_DATABASE_URL });
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    await own.start();
    const { output, url } = await starting;
    expect(output).toContain("sluice: waiting for the database");
    expect((await send(url, "GET", "/apps", { token: adminToken })).status).toBe(200);
  });

  it("a user or a database that the server does not know ends the start with the reason, without the password", async () => {
    const url = await server.createDatabase();
    const unknown = url.replace(/sluice_\d+$/, "no_such").replace("@", ":secret-password@");
    const failed = ServedProcess.start({ SLUICE_DATABASE_URL: unknown, SLUICE_DATA_DIR: await temporaryDir() });
    await expect(failed).rejects.toThrow(/SLUICE_DATABASE_URL: expected a user and a database that the server knows/);
    await expect(failed).rejects.not.toThrow(/secret-password/);
  });
});
