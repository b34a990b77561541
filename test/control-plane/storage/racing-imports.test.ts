// Imports of one app through two control planes on one database: one of them is stored whole, and one whose control plane is killed in the
// middle is in nobody's way for long.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, send, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { until } from "../../fixtures/until.ts";
import { serverKinds } from "./database-servers.ts";
import { ServedProcess } from "./served-process.ts";

const path = "/apps/default/consumers";
const linesOf = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${JSON.stringify({ id: `${prefix}${i}`, plan: "pro" })}\n`).join("");

const replace = ({ url }: { readonly url: string }, text: string): Promise<Answer> =>
  send(url, "PUT", `${path}?replace=true`, { text, type: "application/jsonl" });

describe.each(serverKinds)("on %s", (_, startServer) => {
  let server: DatabaseServer;
  beforeAll(async () => {
    server = await startServer({ hasty: true });
  });
  afterAll(() => server.remove());

  it("two that replace everything at once leave the consumers of one of them, all of them", async () => {
    const SLUICE_DATABASE_URL = await server.createDatabase();
    const planes = [await startControlPlane({ SLUICE_DATABASE_URL }), await startControlPlane({ SLUICE_DATABASE_URL })];
    const count = 3_000;
    const answers = await Promise.all(planes.map((plane, i) => replace(plane, linesOf(`of-${i}-`, count))));
    const won = answers.findIndex(({ status }) => status === 200);
    expect(answers[1 - won]?.body.code).toBe("import-under-way");
    expect(answers[won]?.body).toMatchObject({ done: count, created: count });
    for (const { call } of planes) {
      expect((await call("GET", `${path}?limit=1`)).body.count).toBe(count);
      expect((await call("GET", `${path}?limit=1000&prefix=of-${1 - won}-`)).body.consumers).toEqual([]);
    }
  });

  it("one whose control plane was killed keeps the next one waiting until it counts as dead, and takes no room from then on", async () => {
    const SLUICE_DATABASE_URL = await server.createDatabase();
    const killed = await ServedProcess.start({ SLUICE_DATABASE_URL });
    const { app, call } = await startControlPlane({ SLUICE_DATABASE_URL });
    await call("PUT", "/apps/default", { body: { bounds: { consumers: 100_000 } } });
    const broken = replace(killed, linesOf("killed-", 100_000)).catch(() => undefined);
    const countOf = async () => (await call("GET", `${path}?limit=1`)).body.count;
    await until("it stores", async () => (await countOf()) > 0);
    await killed.stop("SIGKILL");
    await broken;
    const left = await countOf();
    expect(left).toBeLessThan(100_000);
    expect((await call("PUT", path, { text: linesOf("next-", 1), type: "application/jsonl" })).body.code).toBe(
      "import-under-way",
    );
    expect((await call("PUT", `${path}/one`, { body: { plan: "pro" } })).body.code).toBe("bound-exceeded");
    // Half a minute later by the database's clock.
    await app.database
      .updateTable("consumer_imports")
      .set((row) => ({ until_at: row("until_at", "-", 30_000) }))
      .execute();
    expect((await call("PUT", `${path}/one`, { body: { plan: "pro" } })).status).toBe(201);
    const next = await call("PUT", `${path}?replace=true`, { text: linesOf("next-", 10), type: "application/jsonl" });
    expect(next.body).toMatchObject({ done: 10, created: 10, deleted: left + 1 });
    expect(await countOf()).toBe(10);
  });
});
