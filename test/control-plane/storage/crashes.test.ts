// Control planes and database servers that are killed while changes are made: what was acknowledged is stored, nothing is stored by
// half, and everything starts again by itself.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { adminToken, perSecond, send, temporaryDir } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { until } from "../../fixtures/until.ts";
import { sayInStorm } from "../../storm/say.ts";
import { serverKinds } from "./database-servers.ts";
import { ServedProcess } from "./served-process.ts";

/** `npm run storm` makes more of both. */
const writes = Number(process.env["SLUICE_CRASH_WRITES"] ?? 100);
const kills = Number(process.env["SLUICE_CRASH_KILLS"] ?? 1);
/** Some writes must remain for the time after the last kill. */
const longestLifeMs = 450;
const names = ["a", "b", "c"];

interface Written {
  /** The last quota that was answered with success. */
  acknowledged: number;
  /** The last quota that was sent. */
  sent: number;
}

/** Puts policies with growing quotas. A request without an answer may have been stored or not. */
class Writer {
  readonly policies = new Map<string, Written>(names.map((name) => [name, { acknowledged: 0, sent: 0 }]));
  unanswered = 0;
  #count = 0;
  #acknowledged = 0;

  get account(): string {
    return `${this.#acknowledged} answered with success, ${this.unanswered} not, nothing lost`;
  }

  get isDone(): boolean {
    return this.#count >= writes;
  }

  async write(url: string): Promise<boolean> {
    const name = names[this.#count % names.length] as string;
    const written = this.policies.get(name) as Written;
    this.#count += 1;
    written.sent += 1;
    const quota = written.sent;
    try {
      const path = `/apps/default/policies/${name}`;
      const { status, body } = await send(url, "PUT", path, { token: adminToken, body: perSecond(quota) });
      if (status >= 500) {
        expect(["database-unreachable", "database-busy", "internal"]).toContain(body.code);
        this.unanswered += 1;
        return false;
      }
      expect(status).toBeLessThan(300);
      written.acknowledged = quota;
      this.#acknowledged += 1;
      return true;
    } catch (error) {
      if ((error as Error).name === "AssertionError") throw error;
      this.unanswered += 1;
      return false;
    }
  }
}

/** What is stored is what was acknowledged or sent later, revisions have no gaps, and the sums are those of what is stored. */
async function verify(url: string, { policies }: Writer): Promise<void> {
  const read = async (path: string) => (await send(url, "GET", path, { token: adminToken })).body;
  for (const [name, { acknowledged, sent }] of policies) {
    const { limits } = await read(`/apps/default/policies/${name}`);
    expect([name, limits[0].quota >= acknowledged && limits[0].quota <= sent]).toEqual([name, true]);
  }
  const numbers: number[] = [];
  for (let before = ""; ; ) {
    const { revisions, next } = await read(`/revisions?limit=1000${before}`);
    numbers.push(...revisions.map(({ n }: { n: number }) => n));
    if (next === undefined) break;
    before = `&before=${next}`;
  }
  expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, i) => numbers.length - i));
  const { used } = await read("/apps/default");
  const stored = (await read("/apps/default/policies")).policies.map(({ document }: { document: unknown }) => document);
  const bytes = stored.reduce((sum: number, one: unknown) => sum + Buffer.byteLength(JSON.stringify(one)), 0);
  expect(used).toMatchObject({ policies: names.length, bytes });
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.each([["SQLite", undefined] as const, ...serverKinds])("with %s", (kind, startServer) => {
  let server: DatabaseServer | undefined;
  beforeAll(async () => {
    server = await startServer?.();
  });
  afterAll(() => server?.remove());

  async function place(): Promise<Record<string, string>> {
    const SLUICE_DATA_DIR = await temporaryDir();
    return server === undefined
      ? { SLUICE_DATA_DIR }
      : { SLUICE_DATA_DIR, SLUICE_DATABASE_URL: await server.createDatabase() };
  }

  it(`a control plane that is killed (${kills}) during ${writes} writes loses nothing`, async () => {
    const where = await place();
    const writer = new Writer();
    let running = await ServedProcess.start(where);
    let killed = 0;
    while (!writer.isDone) {
      const worker = (async () => {
        while (!writer.isDone && (await writer.write(running.url)));
      })();
      if (killed < kills) {
        await Promise.race([worker, pause(50 + Math.random() * (longestLifeMs - 50))]);
        await running.stop("SIGKILL");
        await worker;
        killed += 1;
        running = await ServedProcess.start(where);
      } else {
        await worker;
      }
    }
    await verify(running.url, writer);
    sayInStorm(`${kind}: ${writes} writes, ${killed} kills of the control plane: ${writer.account}`);
  }, 900_000);

  it("an import during which the control plane is killed is in the audit trail as far as it was stored", async () => {
    const where = await place();
    const killed = await ServedProcess.start(where);
    const path = "/apps/default/consumers";
    const lines = Array.from({ length: 60_000 }, (_, i) => `${JSON.stringify({ id: `c${i}`, plan: "pro" })}\n`);
    const importing = send(killed.url, "PUT", path, { text: lines.join(""), type: "application/jsonl" });
    const broken = importing.catch(() => undefined);
    const countAt = async (url: string) => (await send(url, "GET", `${path}?limit=1`, {})).body.count;
    await until("it stores", async () => (await countAt(killed.url)) > 0);
    await killed.stop("SIGKILL");
    await broken;
    const { url } = await ServedProcess.start(where);
    const count = await countAt(url);
    expect(count).toBeLessThan(lines.length);
    const { entries } = (await send(url, "GET", "/audit?action=import-consumers", {})).body;
    expect(entries.map(({ after }: { after: object }) => after)).toEqual([
      { lines: count, of: lines.length, created: count, changed: 0, unchanged: 0, deleted: 0 },
    ]);
  });

  /** PostgreSQL does not start while processes of the killed one still end. */
  async function startAgain(attempts = 50): Promise<void> {
    try {
      await server?.start();
    } catch (error) {
      if (attempts === 0) throw error;
      await pause(100);
      await startAgain(attempts - 1);
    }
  }

  it.skipIf(kind === "SQLite")(
    `a database server that is killed (${kills}) during ${writes} writes loses nothing, and the control plane goes on`,
    async () => {
      const where = await place();
      const writer = new Writer();
      const running = await ServedProcess.start(where);
      let stopped = false;
      let killed = 0;
      const killer = (async () => {
        for (; killed < kills && !stopped; killed++) {
          await pause(100 + Math.random() * 600);
          await server?.stop("SIGKILL");
          await startAgain();
        }
      })();
      while (!writer.isDone) if (!(await writer.write(running.url))) await pause(20);
      stopped = true;
      await killer;
      // The last writes may have failed while the server was away.
      while (!(await writer.write(running.url))) await pause(50);
      for (const name of names) if (writer.policies.get(name)?.acknowledged === 0) await writer.write(running.url);
      await verify(running.url, writer);
      expect(writer.unanswered).toBeGreaterThan(0);
      sayInStorm(`${kind}: ${writes} writes, ${killed} kills of the database server: ${writer.account}`);
    },
    900_000,
  );
});
