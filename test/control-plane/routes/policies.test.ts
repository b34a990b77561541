import { describe, expect, it } from "vitest";
import {
  onePerSecond,
  perSecond,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";

const books = "/apps/default/policies/books";

describe("the API of policies", () => {
  it("stores a document under the name in its URL and returns it", async () => {
    const { call } = await startControlPlane();
    const put = await call("PUT", books, { body: onePerSecond });
    expect(put).toMatchObject({ status: 201, body: { revision: 1 } });
    expect(put.headers.get("etag")).toBe('"1"');
    const get = await call("GET", books);
    expect(get.body).toEqual({ name: "books", ...onePerSecond });
    expect(get.headers.get("etag")).toBe('"1"');
  });

  it("reads YAML under each of its media types", async () => {
    const { call } = await startControlPlane();
    const text = "key: []\nlimits:\n  - { algorithm: token-bucket, quota: 2, window: 1s, burst: 10 }\n";
    for (const type of ["application/yaml", "text/yaml", "application/x-yaml", "text/vnd.yaml"]) {
      expect([type, (await call("PUT", books, { text, type })).body]).toEqual([type, { revision: 1 }]);
    }
    expect((await call("GET", books)).body.limits).toEqual([
      { algorithm: "token-bucket", quota: 2, window: "1s", burst: 10 },
    ]);
  });

  it("makes no revision for an equal document, whatever the order of its fields", async () => {
    const { call } = await startControlPlane();
    await call("PUT", books, { body: { mode: "shadow", ...onePerSecond } });
    const again = await call("PUT", books, { body: { ...onePerSecond, name: "books", mode: "shadow" } });
    expect(again).toMatchObject({ status: 200, body: { revision: 1 } });
    expect((await call("GET", "/revisions")).body.revisions).toHaveLength(1);
  });

  it("deletes one, and answers 404 from then on", async () => {
    const { call } = await startControlPlane();
    await call("PUT", books, { body: onePerSecond });
    expect(await call("DELETE", books)).toMatchObject({ status: 200, body: { revision: 2 } });
    for (const method of ["GET", "DELETE"]) {
      expect(await call(method, books)).toMatchObject({ status: 404, body: { code: "policy-not-found" } });
    }
  });

  it("answers 404 for an app that does not exist", async () => {
    const { call } = await startControlPlane();
    const paths = ["/apps/none/policies", "/apps/none/policies/p"];
    for (const path of paths) expect((await call("GET", path)).body.code).toBe("app-not-found");
    expect((await call("PUT", "/apps/none/policies/p", { body: onePerSecond })).body.code).toBe("app-not-found");
    expect((await call("POST", "/apps/none/policies/validate", { body: onePerSecond })).body.code).toBe(
      "app-not-found",
    );
  });

  it("lists pages by name", async () => {
    const { call } = await startControlPlane();
    for (const name of ["c", "a", "b"]) await call("PUT", `/apps/default/policies/${name}`, { body: onePerSecond });
    const first = await call("GET", "/apps/default/policies?limit=2");
    expect(first.body.policies.map(({ name, etag }: { name: string; etag: string }) => [name, etag])).toEqual([
      ["a", '"2"'],
      ["b", '"3"'],
    ]);
    expect(first.body.policies[0]).toMatchObject({ revision: 2, document: { name: "a", ...onePerSecond } });
    const second = await call("GET", `/apps/default/policies?limit=2&after=${first.body.next}`);
    expect(second.body.policies.map(({ name }: { name: string }) => name)).toEqual(["c"]);
    expect(second.body).not.toHaveProperty("next");
  });

  it("is listed in shorter pages if the policies are large, each once", async () => {
    const { call } = await startControlPlane();
    const names = Array.from({ length: 130 }, (_, i) => `p${100 + i}`);
    const cidrs = Array.from({ length: 1_000 }, (_, i) => `10.${i >> 8}.${i % 256}.0/24`);
    const lines = names.map((name) => JSON.stringify({ name, ...onePerSecond, exempt: { cidrs } }));
    await call("PUT", "/apps/default/policies", { text: lines.join("\n"), type: "application/jsonl" });
    const pages: string[][] = [];
    for (let next = ""; next !== undefined; ) {
      const { body } = await call("GET", `/apps/default/policies?limit=1000&after=${next}`);
      expect(JSON.stringify(body).length).toBeLessThan(1_100_000);
      pages.push(body.policies.map(({ name }: { name: string }) => name));
      next = body.next;
    }
    expect(pages.flat()).toEqual(names);
    expect(pages.length).toBe(3);
  });

  it("lets a policy be called validate", async () => {
    const { call } = await startControlPlane();
    expect((await call("PUT", "/apps/default/policies/validate", { body: onePerSecond })).status).toBe(201);
    expect((await call("GET", "/apps/default/policies/validate")).body.name).toBe("validate");
  });

  it("keeps everything over a restart, and continues the revisions", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const first = await startControlPlane({ SLUICE_DATA_DIR });
    await first.call("PUT", books, { body: onePerSecond });
    const { epoch } = first.app.publisher.current;
    await first.stop();
    const second = await startControlPlane({ SLUICE_DATA_DIR });
    expect(second.app.publisher.current).toMatchObject({ epoch, revision: 1 });
    expect((await second.call("GET", books)).body).toEqual({ name: "books", ...onePerSecond });
    expect((await second.call("PUT", books, { body: perSecond(2) })).body).toEqual({ revision: 2 });
  });

  it("gives each of 50 concurrent changes a revision of its own, without gaps", async () => {
    // On a busy machine, some wait for longer than 5 s, and are refused: they come again.
    const databaseTimes = { connectMs: 60_000, statementMs: 60_000, lockMs: 60_000 };
    const { call } = await startControlPlane({}, { databaseTimes });
    const put = async (i: number): ReturnType<typeof call> => {
      const answer = await call("PUT", `/apps/default/policies/p${i % 10}`, { body: perSecond(i + 1) });
      return answer.status === 503 ? put(i) : answer;
    };
    const puts = Array.from({ length: 50 }, (_, i) => put(i));
    const revisions = (await Promise.all(puts)).map(({ body }) => body.revision as number);
    expect(revisions.sort((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
    const history = (await call("GET", "/revisions?limit=1000")).body.revisions;
    expect(history.map(({ n }: { n: number }) => n)).toEqual(Array.from({ length: 50 }, (_, i) => 50 - i));
  });

  it("lists the history page by page: what, where, who", async () => {
    const { call } = await startControlPlane();
    await call("PUT", books, { body: perSecond(1) });
    await call("PUT", books, { body: perSecond(2) });
    await call("DELETE", books);
    const page = (await call("GET", "/revisions?limit=2")).body;
    expect(page.revisions.map(({ n, summary }: { n: number; summary: string }) => [n, summary])).toEqual([
      [3, "deleted policy default/books"],
      [2, "updated policy default/books"],
    ]);
    expect(page.revisions[0]).toMatchObject({
      who: "environment",
      action: "delete-policy",
      app: "default",
      policy: "books",
    });
    const rest = (await call("GET", `/revisions?before=${page.next}`)).body;
    expect(rest.revisions.map(({ n }: { n: number }) => n)).toEqual([1]);
  });
});

describe("the API of policies, with preconditions,", () => {
  it("lets an editor change only the version that was read", async () => {
    const { call } = await startControlPlane();
    await call("PUT", books, { body: perSecond(1) });
    const mine = await call("PUT", books, { body: perSecond(2), headers: { "if-match": '"1"' } });
    expect(mine).toMatchObject({ status: 200, body: { revision: 2 } });
    const late = await call("PUT", books, { body: perSecond(3), headers: { "if-match": '"1"' } });
    expect(late).toMatchObject({ status: 412, body: { code: "precondition-failed", etag: '"2"' } });
    expect(late.headers.get("etag")).toBe('"2"');
    expect((await call("DELETE", books, { headers: { "if-match": '"1"' } })).status).toBe(412);
    expect((await call("GET", books)).body).toMatchObject(perSecond(2));
    expect((await call("DELETE", books, { headers: { "if-match": '"1", "2"' } })).status).toBe(200);
  });

  it("only creates with If-None-Match: *", async () => {
    const { call } = await startControlPlane();
    const headers = { "if-none-match": "*" };
    expect((await call("PUT", books, { body: perSecond(1), headers })).status).toBe(201);
    expect((await call("PUT", books, { body: perSecond(2), headers })).status).toBe(412);
    expect((await call("GET", books)).body).toMatchObject(perSecond(1));
  });

  it("finds nothing to match if there is no policy", async () => {
    const { call } = await startControlPlane();
    expect((await call("PUT", books, { body: onePerSecond, headers: { "if-match": "*" } })).status).toBe(412);
    expect((await call("GET", "/revisions")).body.revisions).toEqual([]);
  });

  it("answers 304 to a client that has the version already", async () => {
    const { call } = await startControlPlane();
    await call("PUT", books, { body: onePerSecond });
    expect((await call("GET", books, { headers: { "if-none-match": '"1"' } })).status).toBe(304);
  });
});
