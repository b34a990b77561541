// A page of a long list costs little, for whoever asks. The CPU that it takes does not depend on what else the machine does, unlike its
// time; `npm run bench -- lists` measures both.

import { beforeAll, describe, expect, it } from "vitest";
import { fill, ownerTokens } from "../../../bench/lists/rows.ts";
import { median } from "../../../bench/statistics.ts";
import { adminToken, sharedControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

const rows = 10_000;
const mostCpuMs = 50;
const times = 7;

const lists = ["/apps/shop/policies", "/apps/shop/bans", "/tokens", "/members", "/revisions", "/audit"];
/** Whatever little of the audit trail somebody looks for. */
const filters = ["who=nobody", "who=nobody&app=shop", "subject=nothing", "action=delete-member"];
const askers = [
  ["an admin", adminToken],
  ["the owner of the app", ownerTokens.shop],
] as const;

async function medianCpuMs(act: () => Promise<unknown>): Promise<number> {
  const used: number[] = [];
  for (let i = 0; i < times; i++) {
    const before = process.cpuUsage();
    await act();
    const { user, system } = process.cpuUsage(before);
    used.push((user + system) / 1_000);
  }
  return median(used);
}

describe(`with ${rows} rows in each list`, () => {
  const control = sharedControlPlane();
  beforeAll(() => fill(control().app.database, rows, Date.now()));

  it.each(lists.flatMap((list) => askers.map(([who, token]) => [list, who, token] as const)))(
    `GET %s takes at most ${mostCpuMs} ms of CPU for a page, for %s`,
    async (list, _, token) => {
      const ask = async () => {
        const { body } = await control().call("GET", list, { token });
        expect(Object.values(body).find(Array.isArray)).toHaveLength(100);
        expect(body.next).toBeDefined();
      };
      expect(await medianCpuMs(ask)).toBeLessThan(mostCpuMs);
    },
  );

  it.each(filters)("GET /audit?%s takes less CPU than to read all rows, although it finds none", async (filter) => {
    const { app, call } = control();
    const readAll = async () => {
      for (const table of ["revisions", "audit"] as const) {
        await app.database.selectFrom(table).selectAll().where("source", "=", "nowhere").execute();
      }
    };
    const ask = async () => expect((await call("GET", `/audit?${filter}`)).body.entries).toEqual([]);
    expect(await medianCpuMs(ask)).toBeLessThan(await medianCpuMs(readAll));
  });

  it("the owner of a small app does not wait for the rows of a large one", async () => {
    const { body } = await control().call("GET", "/audit", { token: ownerTokens.kiosk });
    expect(body.entries.map(({ app }: { app: string }) => app)).toEqual(Array.from({ length: 20 }, () => "kiosk"));
    expect(body.next).toBeUndefined();
  });

  it("pages have every policy exactly once, in order", async () => {
    const seen: string[] = [];
    let after = "";
    do {
      const { body } = await control().call("GET", `/apps/shop/policies?limit=1000&after=${after}`);
      seen.push(...body.policies.map(({ name }: { name: string }) => name));
      after = body.next;
    } while (after !== undefined);
    expect(seen).toHaveLength(rows - rows / 1_000);
    expect(seen).toEqual([...new Set(seen)].sort());
  });
});
