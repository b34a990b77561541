// The keys of the last hour are told after a control plane was stopped or killed, and by each of several control planes; with right sums, each
// request once. What may be missing is said.

import { DatabaseSync } from "node:sqlite";
import type { GatewayMessage } from "@sluice/limiter/protocol/push-messages.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { forgetKeptKeys } from "../../../control-plane/src/storage/kept-keys.ts";
import {
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
import { newPlace, type Place, rowsIn, serverKinds } from "./database-servers.ts";
import { ServedProcess } from "./served-process.ts";

type Counts = Readonly<Record<string, number>>;

const policy = { ...onePerSecond, key: ["header:x-user"] };

/** What a gateway says of requests that it has refused: of each user, and of users that it does not list. */
function refusals(counts: Counts, unlisted = 0, name = "books"): GatewayMessage {
  const nowMs = Date.now();
  const list = {
    app: "default",
    policy: name,
    key: ["header:x-user"],
    result: "refused" as const,
    sinceMs: nowMs - 10_000,
    keys: Object.keys(counts).map((user) => `1:${user}`),
    counts: Object.values(counts),
    error: 0,
    unlisted,
  };
  return { type: "activity", nowMs, workers: [{ toMs: nowMs, policies: [], keys: [list] }] };
}

async function top(url: string, name = "books") {
  return (await send(url, "GET", `/apps/default/top?policy=${name}&window=hour`, {})).body;
}

/** What is told of refused users: the bounds of each, and of others. */
async function told(url: string): Promise<Record<string, [number, number]>> {
  const { refused, othersAtMost } = await top(url);
  const bounds = refused.map(({ key: [user], atLeast, atMost }: { key: string[]; atLeast: number; atMost: number }) => [
    user,
    [atLeast, atMost],
  ]);
  return Object.fromEntries([...bounds, ["others", [0, othersAtMost.refused]]]);
}

async function isComplete(url: string): Promise<boolean> {
  return (await top(url)).complete;
}

describe.each([["SQLite", undefined] as const, ...serverKinds])("with %s", (kind, startServer) => {
  let server: DatabaseServer | undefined;
  beforeAll(async () => {
    server = await startServer?.();
  });
  afterAll(() => server?.remove());

  const place = () => newPlace(server);
  /** How many rows keep keys. */
  const rows = (where: Place) => rowsIn(server, where, "kept_keys");

  const putPolicy = ({ url }: { url: string }, name = "books") =>
    send(url, "PUT", `/apps/default/policies/${name}`, { body: policy });

  it("what was refused in the last hour is told after a stop and a start, and after another one", async () => {
    const where = await place();
    let plane: Running = await startControlPlane(where);
    await putPolicy(plane);
    let since = 0;
    for (const [i, user] of ["bob", "cid", "dee"].entries()) {
      const gateway = await connectGateway(plane, "gw-1");
      gateway.say(refusals({ ann: 10, [user]: 2 }, 1));
      await gateway.untilHeard();
      const before = await told(plane.url);
      expect(before).toMatchObject({ ann: [10 * (i + 1), 10 * (i + 1)], [user]: [2, 2 + i], others: [0, i + 1] });
      since ||= Date.parse((await top(plane.url)).since);
      await plane.stop();
      plane = await startControlPlane(where);
      expect(await told(plane.url)).toEqual(before);
      const after = await top(plane.url);
      expect(after.complete).toBe(true);
      // Each start tells it anew, by the database's clock.
      expect(Math.abs(Date.parse(after.since) - since)).toBeLessThan(10_000);
      expect((await plane.call("GET", "/apps/default/top?policy=books")).body.refused).toEqual([]);
    }
  });

  it("what was refused in the last hour is told after kill -9, and that some may be missing", async () => {
    const where = await place();
    const killed = await ServedProcess.start(where);
    await putPolicy(killed);
    const gateway = await connectGateway({ url: killed.url }, "gw-1");
    gateway.say(refusals({ ann: 10, bob: 2 }, 3));
    await untilPasses(async () => expect(await rows(where)).toBe(1));
    const before = await told(killed.url);
    expect(before).toEqual({ ann: [10, 10], bob: [2, 2], others: [0, 3] });
    expect(await isComplete(killed.url)).toBe(true);
    await killed.stop("SIGKILL");
    const { url } = await ServedProcess.start(where);
    expect(await told(url)).toEqual(before);
    expect(await isComplete(url)).toBe(false);
    (await connectGateway({ url }, "gw-1")).say(refusals({ ann: 1 }));
    await untilPasses(async () => expect((await told(url))["ann"]).toEqual([11, 11]));
    expect((await told(url))["bob"]).toEqual([2, 2]);
  });

  it("what a gateway says of policies that do not exist is not kept", async () => {
    const where = await place();
    const plane = await startControlPlane(where);
    await putPolicy(plane);
    const gateway = await connectGateway(plane, "gw-1");
    gateway.say(refusals({ ann: 1 }, 0, "none"));
    gateway.say(refusals({ ann: 1 }));
    await untilPasses(async () => expect(await rows(where)).toBe(1));
  });

  it("what nobody asks for any more is deleted, some of it at a time", async () => {
    const plane = await startControlPlane(await place());
    const { database } = plane.app;
    const row = (number: number, ends_at: number) => ({ control_plane: "gone", number, ends_at, report: "{}" });
    const old = Array.from({ length: 700 }, (_, i) => row(i, Date.now() - 3_700_000));
    await database
      .insertInto("kept_keys")
      .values([...old, row(700, Date.now() - 3_500_000)])
      .execute();
    const left = async () => (await database.selectFrom("kept_keys").select("number").execute()).length;
    expect([await forgetKeptKeys(database), await left()]).toEqual([true, 201]);
    expect([await forgetKeptKeys(database), await left()]).toEqual([false, 1]);
  });

  describe.skipIf(kind === "SQLite")("and several control planes", () => {
    it("each tells what the gateways of all reported, once, whichever of them stops, is killed or starts", async () => {
      const where = await place();
      const killed = await ServedProcess.start(where);
      const stopped = await startControlPlane({ ...where, SLUICE_DATA_DIR: await temporaryDir() });
      const steady = await startControlPlane({ ...where, SLUICE_DATA_DIR: await temporaryDir() });
      await putPolicy(killed);
      for (const [i, { url }] of [killed, stopped, steady].entries()) {
        const gateway = await connectGateway({ url }, `gw-${i}`);
        for (const count of [100, 20, 3]) gateway.say(refusals({ ann: count, [`only-${i}`]: 1 }, 1));
        await gateway.untilHeard();
      }
      const expected = { ann: [369, 369], "only-0": [3, 9], "only-1": [3, 9], "only-2": [3, 9], others: [0, 9] };
      for (const { url } of [killed, stopped, steady]) {
        await untilPasses(async () => expect(await told(url)).toEqual(expected));
        await untilPasses(async () => expect(await isComplete(url)).toBe(true));
      }
      await stopped.stop();
      const third = await startControlPlane({ ...where, SLUICE_DATA_DIR: await temporaryDir() });
      expect(await told(third.url)).toEqual(expected);
      await untilPasses(async () => expect(await isComplete(third.url)).toBe(true));

      await killed.stop("SIGKILL");
      const fourth = await startControlPlane(where);
      expect(await told(fourth.url)).toEqual(expected);
      expect(await isComplete(fourth.url)).toBe(false);
      await untilPasses(async () => expect(await isComplete(steady.url)).toBe(false));

      (await connectGateway(fourth, "gw-0")).say(refusals({ ann: 1_000 }));
      for (const { url } of [third, fourth, steady]) {
        await untilPasses(async () => expect(await told(url)).toEqual({ ...expected, ann: [1_369, 1_369] }));
      }
    });

    it("what is reported while the database is away is stored when it is back", async () => {
      const own = (await startServer?.()) as DatabaseServer;
      onFinished(() => own.remove());
      const where = { SLUICE_DATABASE_URL: await own.createDatabase() };
      const plane = await startControlPlane(where);
      await putPolicy(plane);
      const gateway = await connectGateway(plane, "gw-1");
      gateway.say(refusals({ ann: 10 }));
      await untilPasses(async () => expect((await told(plane.url))["ann"]).toEqual([10, 10]));
      await own.stop("SIGKILL");
      gateway.say(refusals({ ann: 7 }));
      await gateway.untilHeard();
      await untilPasses(() => own.start());
      await untilPasses(async () => expect((await told(plane.url))["ann"]).toEqual([17, 17]));
      const other = await startControlPlane(where);
      await untilPasses(async () => expect((await told(other.url))["ann"]).toEqual([17, 17]));
    });
  });
});

it("the row of a slot stays until the one in its place is stored", async () => {
  const SLUICE_DATA_DIR = await temporaryDir();
  const plane = await startControlPlane({ SLUICE_DATA_DIR });
  // More than are stored at once.
  const names = Array.from({ length: 150 }, (_, i) => `books-${i}`);
  const text = names.map((name) => JSON.stringify({ name, ...policy })).join("\n");
  expect((await plane.call("PUT", "/apps/default/policies", { text, type: "application/jsonl" })).status).toBe(200);
  const gateway = await connectGateway(plane, "gw-1");
  const database = new DatabaseSync(`${SLUICE_DATA_DIR}/sluice.db`);
  onFinished(() => database.close());
  /** How many requests of the policy its rows tell of. */
  const toldIn = (name: string) =>
    database
      .prepare("select report from kept_keys where report like ?")
      .all(`%"default/${name} %`)
      .flatMap(({ report }) => (JSON.parse(`${report}`) as { counts: number[] }).counts)
      .reduce((sum, count) => sum + count, 0);
  const sayOf = (counts: Counts, all: readonly string[]) => {
    const [first, ...rest] = all.map((name) => refusals(counts, 0, name)) as Extract<
      GatewayMessage,
      { type: "activity" }
    >[];
    const keys = [first, ...rest].flatMap((one) => one?.workers[0]?.keys ?? []);
    gateway.say({ ...first, workers: [{ ...first?.workers[0], keys }] } as GatewayMessage);
  };
  sayOf({ ann: 10 }, ["books-0"]);
  await untilPasses(() => expect(toldIn("books-0")).toBe(10));
  // The control plane runs in this process: it must not be waited for in a call.
  const exec = (text: string) => untilPasses(() => database.exec(text));
  await exec(
    `create trigger refuse before insert on kept_keys when new.report like '%"default/books-0 %' begin select raise(abort, 'no'); end`,
  );
  sayOf({ ann: 10 }, names);
  await gateway.untilHeard();
  // Those are stored that are taken without it.
  await untilPasses(() => expect(toldIn("books-149")).toBe(10));
  expect(toldIn("books-0")).toBe(10);
  await exec("drop trigger refuse");
  await untilPasses(() => expect(toldIn("books-0")).toBe(20));
});
