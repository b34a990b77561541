// Writers that race for the same policies: no update is lost, and revisions have no gaps. `npm run storm` makes 10,000 writes.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { onePerSecond, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { sayInStorm } from "../../storm/say.ts";
import { serverKinds } from "./database-servers.ts";

const writes = Number(process.env["SLUICE_RACING_WRITES"] ?? 300);
const writers = 16;
const names = ["a", "b", "c", "d"];

describe.each([["SQLite", undefined] as const, ...serverKinds])("on %s", (kind, startServer) => {
  let server: DatabaseServer | undefined;
  beforeAll(async () => {
    server = await startServer?.({ hasty: true });
  });
  afterAll(() => server?.remove());

  /** Two control planes on a server. SQLite has one. */
  async function planes(): Promise<[Running, Running]> {
    if (server === undefined) {
      const one = await startControlPlane();
      return [one, one];
    }
    const SLUICE_DATABASE_URL = await server.createDatabase();
    return [await startControlPlane({ SLUICE_DATABASE_URL }), await startControlPlane({ SLUICE_DATABASE_URL })];
  }

  it(`no update is lost in ${writes} racing writes, and revisions have no gaps`, async () => {
    const both = await planes();
    for (const name of names) await both[0].call("PUT", `/apps/default/policies/${name}`, { body: onePerSecond });
    const accepted = new Map<string, number>(names.map((name) => [name, 0]));
    const statuses = new Map<number, number>();
    let started = 0;
    let uncertain = 0;
    // Each reads a policy, and puts it back with a quota of one more, under the condition that nobody has changed it.
    const write = async (plane: Running, seed: number) => {
      for (let turn = seed; started < writes; turn++) {
        started += 1;
        const name = names[turn % names.length] as string;
        const path = `/apps/default/policies/${name}`;
        const { status, body, headers } = await plane.call("GET", path);
        if (status !== 200) {
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
          continue;
        }
        const [limit] = body.limits;
        const next = { ...onePerSecond, limits: [{ ...limit, quota: limit.quota + 1 }] };
        const answer = await plane.call("PUT", path, {
          body: next,
          headers: { "if-match": headers.get("etag") ?? "" },
        });
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        if (answer.status === 503) {
          // The machine is too busy for the time-outs. Hardly ever, this says that the change may be stored.
          sayInStorm(`${kind}: ${answer.body.code}: ${answer.body.detail}`);
          expect(["database-busy", "database-unreachable"]).toContain(answer.body.code);
          if (/was stored whole, or nothing was/.test(answer.body.detail)) uncertain += 1;
        }
        if (answer.status === 200) accepted.set(name, (accepted.get(name) ?? 0) + 1);
      }
    };
    const beganMs = performance.now();
    await Promise.all(Array.from({ length: writers }, (_, i) => write(both[i % 2] as Running, i >> 1)));
    const seconds = (performance.now() - beganMs) / 1_000;
    const [stored = 0, refused = 0, late = 0] = [200, 412, 503].map((status) => statuses.get(status) ?? 0);
    sayInStorm(
      `${kind}: ${writes} racing writes in ${seconds.toFixed(0)} s: ${stored} stored, ${refused} refused (412), ${late} late (503)`,
    );
    expect(stored + refused + late).toBe(started);
    // How many are late depends on how busy the machine is.
    expect(stored).toBeGreaterThan(late);
    let total = names.length;
    for (const name of names) {
      const { body } = await both[1].call("GET", `/apps/default/policies/${name}`);
      const added = body.limits[0].quota - 1;
      const surplus = added - (accepted.get(name) ?? 0);
      expect([name, surplus >= 0 && surplus <= uncertain]).toEqual([name, true]);
      total += added;
    }
    const numbers: number[] = [];
    for (let before = ""; ; ) {
      const { body } = await both[0].call("GET", `/revisions?limit=500${before}`);
      numbers.push(...body.revisions.map(({ n }: { n: number }) => n));
      if (body.next === undefined) break;
      before = `&before=${body.next}`;
    }
    expect(numbers).toEqual(Array.from({ length: total }, (_, i) => total - i));
    sayInStorm(`${kind}: no update is lost, and the revisions 1 to ${total} have no gap`);
  }, 900_000);
});
