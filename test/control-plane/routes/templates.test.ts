import type { SnapshotPolicy } from "@sluice/limiter/protocol/push-messages.ts";
import { beforeAll, describe, expect, it } from "vitest";
import { loadSnapshot } from "../../fixtures/documents/loaded-state.ts";
import {
  onePerSecond,
  perSecond,
  sharedControlPlane,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { testDatabaseKind } from "../../fixtures/servers/test-database.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { Turns } from "../../fixtures/turns.ts";

const polite = "/apps/default/templates/our-429";
const books = "/apps/default/policies/books";
/** Those of a snapshot are in any order. */
const inOrder = (policies: readonly SnapshotPolicy[]) => {
  const place = ({ app, document }: SnapshotPolicy) => `${app}/${(document as { name: string }).name}`;
  return [...policies].sort((a, b) => (place(a) < place(b) ? -1 : 1));
};
const usesPolite = { ...onePerSecond, onLimit: { template: "our-429" } };

describe("a template", () => {
  it("is stored, shown with its version, listed by name and deleted", async () => {
    const { call } = await startControlPlane();
    const document = { onLimit: { status: 503 } };
    const put = await call("PUT", polite, { body: document });
    expect([put.status, put.body, put.headers.get("etag")]).toEqual([201, { revision: 1 }, '"1"']);
    await call("PUT", "/apps/default/templates/heavy", { text: "cost: 5\n", type: "application/yaml" });
    const get = await call("GET", polite);
    expect([get.body, get.headers.get("etag")]).toEqual([document, '"1"']);
    expect((await call("GET", polite, { headers: { "if-none-match": '"1"' } })).status).toBe(304);
    expect((await call("GET", "/apps/default/templates")).body.templates).toMatchObject([
      { name: "heavy", etag: '"2"', revision: 2, document: { cost: 5 } },
      { name: "our-429", etag: '"1"', revision: 1, document },
    ]);
    expect((await call("DELETE", polite)).body).toEqual({ revision: 3 });
    for (const method of ["GET", "DELETE"]) expect((await call(method, polite)).body.code).toBe("template-not-found");
    const summaries = (await call("GET", "/revisions")).body.revisions.map((one: { summary: string }) => one.summary);
    expect(summaries[0]).toBe("deleted template default/our-429");
  });

  it("changes nothing if it is equal, and honours If-Match", async () => {
    const { call } = await startControlPlane();
    await call("PUT", polite, { body: { onLimit: { status: 503, action: "reject" } } });
    const same = await call("PUT", polite, { body: { onLimit: { action: "reject", status: 503 } } });
    expect([same.status, same.body]).toEqual([200, { revision: 1 }]);
    const late = await call("PUT", polite, { body: { onLimit: {} }, headers: { "if-match": '"7"' } });
    expect([late.status, late.body.etag]).toEqual([412, '"1"']);
    expect((await call("DELETE", polite, { headers: { "if-match": '"7"' } })).status).toBe(412);
  });

  it("that has another size stores those of all policies that use it by a few statements", async () => {
    const { app, call } = await startControlPlane();
    await call("PUT", polite, { body: { onLimit: { status: 503 } } });
    const lines = Array.from({ length: 450 }, (_, i) => JSON.stringify({ name: `p${i}`, ...usesPolite }));
    const put = await call("PUT", "/apps/default/policies", { text: lines.join("\n"), type: "application/x-ndjson" });
    expect(put.status).toBe(200);
    const sizes = async () =>
      (await app.database.selectFrom("policies").select("bytes").orderBy("name").execute()).map(({ bytes }) => bytes);
    const before = await sizes();
    let statements = 0;
    app.storageObserver.add({
      statement: () => {
        statements += 1;
      },
      transaction: () => () => undefined,
      waited: () => undefined,
      failed: () => undefined,
    });
    const more = async (changed: Promise<{ status: number }>) => {
      statements = 0;
      expect([(await changed).status, statements < 100]).toEqual([200, true]);
      return [...new Set((await sizes()).map((bytes, i) => Number(bytes) - Number(before[i])))];
    };
    const later = call("PUT", polite, { body: { onLimit: { status: 503, body: "later" } } });
    expect(await more(later)).toEqual([',"body":"later"'.length]);
    const back = call("POST", `/revisions/${put.body.revision}/rollback`, { body: { app: "default" } });
    expect(await more(back)).toEqual([0]);
  });

  const untouched = sharedControlPlane();
  it.each([
    [{}, ": neither"],
    [{ onLimit: {}, cost: 1 }, ": both"],
    [{ onLimit: { status: 200 } }, "onLimit.status: 200"],
    [{ onLimit: { template: "other" } }, 'onLimit.template: "other"'],
    [{ onLimit: 5 }, "onLimit: 5"],
    [{ onLimit: { action: "delay" } }, "onLimit.maxDelay: nothing"],
    [{ onLimit: { action: "tag", header: "x-over-limit: 1", status: 429 } }, "onLimit.status: one"],
    [{ cost: 0 }, "cost: 0"],
    [{ limits: [] }, "limits: a list of 0"],
    [[], ": a list of 0"],
  ])("is not %j", async (body, fault) => {
    const { call } = untouched();
    const answer = await call("PUT", polite, { body });
    expect([answer.status, answer.body.code]).toEqual([400, "invalid-template"]);
    const [{ path, got }] = answer.body.errors;
    expect(`${path}: ${got}`).toBe(fault);
    expect((await call("GET", "/revisions")).body.revisions).toEqual([]);
  });

  it("needs a valid name and an existing app", async () => {
    const { call } = await startControlPlane();
    const named = await call("PUT", "/apps/default/templates/Polite", { body: { onLimit: {} } });
    expect(named.body.errors).toMatchObject([{ path: "name", got: '"Polite"' }]);
    expect((await call("PUT", "/apps/none/templates/a", { body: { onLimit: {} } })).body.code).toBe("app-not-found");
    expect((await call("GET", "/apps/none/templates")).body.code).toBe("app-not-found");
  });

  it("keeps its app from being deleted", async () => {
    const { call } = await startControlPlane();
    await call("PUT", "/apps/shop");
    await call("PUT", "/apps/shop/templates/a", { body: { cost: 1 } });
    expect((await call("DELETE", "/apps/shop")).body.code).toBe("app-not-empty");
    await call("DELETE", "/apps/shop/templates/a");
    expect((await call("DELETE", "/apps/shop")).status).toBe(200);
  });
});

describe("a policy that uses a template", () => {
  it("keeps the reference, and gateways get the template's content, now and whenever it changes", async () => {
    const running = await startControlPlane();
    await running.call("PUT", polite, { body: { onLimit: { status: 503 } } });
    await running.call("PUT", "/apps/default/templates/heavy", { body: { cost: 3 } });
    const document = { ...perSecond(5), onLimit: { template: "our-429" }, cost: { template: "heavy" } };
    expect((await running.call("PUT", books, { body: document })).status).toBe(201);
    await running.call("PUT", "/apps/default/policies/films", { body: onePerSecond });
    expect((await running.call("GET", books)).body).toEqual({ name: "books", ...document });

    const gateway = await connectGateway(running, "g1");
    const first = await gateway.next("snapshot");
    const resolved = { name: "books", ...perSecond(5), onLimit: { status: 503 }, cost: 3 };
    const films = { app: "default", document: { name: "films", ...onePerSecond } };
    expect(inOrder(first.policies)).toEqual([{ app: "default", document: resolved }, films]);
    expect(loadSnapshot(first).problems).toEqual([]);

    expect((await running.call("PUT", polite, { body: { onLimit: { status: 429 } } })).body).toEqual({ revision: 5 });
    const second = await gateway.next("snapshot");
    expect(second.revision).toBe(5);
    expect(inOrder(second.policies)).toEqual([
      { app: "default", document: { ...resolved, onLimit: { status: 429 } } },
      films,
    ]);
    expect((await running.call("GET", books)).headers.get("etag")).toBe('"3"');
  });

  it("gets the template of its own app", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop");
    await running.call("PUT", "/apps/shop/templates/our-429", { body: { onLimit: { status: 503 } } });
    expect((await running.call("PUT", books, { body: usesPolite })).body.code).toBe("invalid-policy");
    await running.call("PUT", polite, { body: { onLimit: { status: 429 } } });
    await running.call("PUT", books, { body: usesPolite });
    await running.call("PUT", "/apps/shop/policies/books", { body: usesPolite });
    const gateway = await connectGateway(running, "g1");
    expect(inOrder((await gateway.next("snapshot")).policies)).toMatchObject([
      { app: "default", document: { onLimit: { status: 429 } } },
      { app: "shop", document: { onLimit: { status: 503 } } },
    ]);
  });

  it("may have texts and keys that only look like a reference", async () => {
    const running = await startControlPlane();
    await running.call("PUT", polite, { body: { onLimit: {} } });
    const document = { ...onePerSecond, description: '{"template":"our-429"}', key: ["const:template"] };
    expect((await running.call("PUT", books, { body: document })).status).toBe(201);
    const gateway = await connectGateway(running, "g1");
    expect((await gateway.next("snapshot")).policies[0]?.document).toEqual({ name: "books", ...document });
    expect((await running.call("DELETE", polite)).status).toBe(200);
  });

  const withTemplates = sharedControlPlane();
  beforeAll(async () => {
    await withTemplates().call("PUT", polite, { body: { onLimit: { status: 503 } } });
    await withTemplates().call("PUT", "/apps/default/templates/heavy", { body: { cost: 3 } });
  });
  it.each([
    [
      { onLimit: { template: "none" } },
      "onLimit.template",
      "onLimit: cheap-answer, our-429, polite-429, wait-in-line",
      '"none"',
    ],
    [
      { onLimit: { template: "heavy" } },
      "onLimit.template",
      "onLimit: cheap-answer, our-429, polite-429, wait-in-line",
      '"heavy"',
    ],
    [{ cost: { template: "our-429" } }, "cost.template", "cost: heavy", '"our-429"'],
    [{ onLimit: { template: 5 } }, "onLimit.template", "onLimit: cheap-answer, our-429, polite-429, wait-in-line", "5"],
    [
      { onLimit: { template: "constructor" } },
      "onLimit.template",
      "onLimit: cheap-answer, our-429, polite-429, wait-in-line",
      '"constructor"',
    ],
    [{ onLimit: { template: "our-429", status: 503 } }, "onLimit.status", "nothing beside template", "503"],
    [
      { cost: { template: "heavy" } },
      "cost.template",
      "at most 1, which is all that limits[0]",
      '"heavy", where it is 3',
    ],
    [{ mode: { template: "our-429" } }, "mode", "one of enforce", "an object"],
  ])("is refused for %j, by the paths of its own document", async (fields, path, expected, got) => {
    const { call } = withTemplates();
    const body = { ...onePerSecond, ...fields };
    const { errors } = (await call("PUT", books, { body })).body;
    expect(errors).toEqual([{ path, expected: expect.stringContaining(expected), got }]);
    expect((await call("POST", "/apps/default/policies/validate", { body })).body).toEqual({ valid: false, errors });
  });

  it("is refused with the hint that there are no templates", async () => {
    const { call } = await startControlPlane();
    expect((await call("PUT", books, { body: { ...onePerSecond, cost: { template: "heavy" } } })).body.errors).toEqual([
      {
        path: "cost.template",
        expected: "the name of a template with cost, and the app has none",
        got: '"heavy"',
      },
    ]);
  });

  it("keeps the template from being deleted, and is named", async () => {
    const { call } = await startControlPlane();
    await call("PUT", polite, { body: { onLimit: {} } });
    for (const name of ["films", "books"]) {
      await call("PUT", `/apps/default/policies/${name}`, { body: usesPolite });
    }
    await call("PUT", "/apps/default/policies/other", { body: onePerSecond });
    const refused = await call("DELETE", polite);
    expect([refused.status, refused.body.code, refused.body.policies]).toEqual([
      409,
      "template-in-use",
      ["books", "films"],
    ]);
    expect(refused.body.detail).toContain("books, films");
    await call("PUT", books, { body: onePerSecond });
    await call("DELETE", "/apps/default/policies/films");
    expect((await call("DELETE", polite)).status).toBe(200);
  });

  it("keeps the template from changing into what the policy cannot have", async () => {
    const { call } = await startControlPlane();
    const heavy = "/apps/default/templates/heavy";
    await call("PUT", heavy, { body: { cost: 3 } });
    await call("PUT", books, { body: { ...perSecond(5), cost: { template: "heavy" } } });
    const tooMuch = await call("PUT", heavy, { body: { cost: 6 } });
    expect([tooMuch.status, tooMuch.body.code]).toEqual([400, "invalid-template"]);
    expect(tooMuch.body.errors).toEqual([
      {
        path: "cost",
        expected: 'what the policy "books" can have: at most 5, which is all that limits[0] ever holds',
        got: "6",
      },
    ]);
    const other = await call("PUT", heavy, { body: { onLimit: {} } });
    expect(other.body.errors).toEqual([
      { path: "cost", expected: 'what the policy "books" uses it for', got: "nothing" },
    ]);
    expect((await call("GET", heavy)).body).toEqual({ cost: 3 });
    expect((await call("GET", "/revisions")).body.revisions).toHaveLength(2);
  });

  it("never loses the template to a deletion at the same moment", async () => {
    const running = await startControlPlane();
    for (let i = 0; i < 10; i++) {
      await running.call("PUT", polite, { body: { onLimit: { status: 503 } } });
      const [put, deletion] = await Promise.all([
        running.call("PUT", books, { body: usesPolite }),
        running.call("DELETE", polite),
      ]);
      expect([put.status < 300, deletion.status < 300].filter(Boolean)).toHaveLength(1);
      await running.call("DELETE", books);
    }
  });
});

describe("an editor who changes the template of very many policies", () => {
  // The database has no part in this.
  it.skipIf(testDatabaseKind !== undefined)(
    "is answered with the first hundred faults, and keeps nobody from being answered",
    async () => {
      const running = await startControlPlane();
      const { call } = running;
      await call("PUT", "/apps/default/templates/heavy", { body: { cost: 1 } });
      const limits = Array.from({ length: 16 }, (_, i) => ({ ...onePerSecond.limits[0], name: `l${i}`, quota: 5 }));
      for (let i = 0; i < 300; i++) {
        const { status } = await call("PUT", `/apps/default/policies/p${i}`, {
          body: { limits, cost: { template: "heavy" } },
        });
        expect(status).toBe(201);
      }
      const refused = await call("PUT", "/apps/default/templates/heavy", { body: { cost: 6 } });
      expect([refused.status, refused.body.code]).toEqual([400, "invalid-template"]);
      expect(refused.body.errors).toHaveLength(100);
      const turns = new Turns();
      onFinished(() => turns.stop());
      const longest: number[] = [];
      for (const cost of [2, 3, 4]) {
        turns.take();
        expect((await call("PUT", "/apps/default/templates/heavy", { body: { cost } })).status).toBe(200);
        longest.push(turns.take());
      }
      expect(Math.max(...longest)).toBeLessThan(60);
    },
  );
});
