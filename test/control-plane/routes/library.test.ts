// The library: what is supplied, and policies that take it by name.

import { describe, expect, it } from "vitest";
import { library } from "../../../control-plane/src/library/supplied.ts";
import { startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

const books = "/apps/default/policies/books";
const login = { template: "login-protection", match: { paths: ["/login"] } };
const supplied = (name: string) => library.get(name)?.document as Record<string, unknown>;
const loginStored = {
  name: "books",
  ...supplied("login-protection"),
  match: { methods: ["POST"], paths: ["/login"] },
};
const limits = [{ algorithm: "fixed-window", quota: 5, window: "1m" }];

describe("the library", () => {
  it("is listed by name, with a title and a description in both languages of the console", async () => {
    const { call } = await startControlPlane();
    const { status, body } = await call("GET", "/library");
    expect(status).toBe(200);
    const names = body.templates.map(({ name }: { name: string }) => name);
    expect(names).toEqual([...library.keys()]);
    expect(names).toEqual([...names].sort());
    for (const each of body.templates) expect((await call("GET", `/library/${each.name}`)).body).toEqual(each);
    expect(body.templates[0]).toEqual({
      name: "cheap-answer",
      kind: "action",
      title: "A cheap answer",
      description: expect.stringContaining("\nThe client sees status 200"),
      translations: { zh: { title: "廉价的响应", description: expect.stringContaining("客户端看到状态 200") } },
      document: { onLimit: expect.objectContaining({ action: "degrade" }) },
    });
  });

  it("says what it has when it is asked for something else", async () => {
    const { call } = await startControlPlane();
    const { status, body } = await call("GET", "/library/constructor");
    expect([status, body.code]).toEqual([404, "template-not-found"]);
    expect(body.detail).toContain('"constructor". It has: cheap-answer, ');
  });
});

describe("a policy that takes a supplied policy", () => {
  it("is stored whole: what it says itself replaces the template, of match field by field", async () => {
    const { call } = await startControlPlane();
    expect((await call("PUT", books, { body: login })).status).toBe(201);
    expect((await call("GET", books)).body).toEqual(loginStored);
    const own = { ...login, match: { methods: ["PUT"] }, key: ["form:user"], description: "ours", limits };
    await call("PUT", books, { body: own });
    const { template: _, ...rest } = own;
    expect((await call("GET", books)).body).toEqual({ ...loginStored, ...rest });
  });

  it("is not changed by being put again, in either form", async () => {
    const { call } = await startControlPlane();
    const { revision } = (await call("PUT", books, { body: login })).body;
    expect((await call("PUT", books, { body: login })).body.revision).toBe(revision);
    expect((await call("PUT", books, { body: loginStored })).body.revision).toBe(revision);
  });

  it("is put among many, and compared as it is completed", async () => {
    const { call } = await startControlPlane();
    const text = `${JSON.stringify({ name: "books", ...login })}\n${JSON.stringify({ name: "a", limits })}\n`;
    const put = () => call("PUT", "/apps/default/policies?prune=true", { text, type: "application/jsonl" });
    expect((await put()).body).toMatchObject({ created: 2, changed: 0, unchanged: 0 });
    expect((await put()).body).toMatchObject({ created: 0, changed: 0, unchanged: 2, deleted: 0 });
    expect((await call("GET", books)).body).toEqual(loginStored);
  });

  it("is validated as it would be stored", async () => {
    const { call } = await startControlPlane();
    const validate = (body: object) => call("POST", "/apps/default/policies/validate", { body });
    expect((await validate(login)).body).toEqual({ valid: true });
    expect((await validate({ ...login, limits: [] })).body.errors).toEqual([
      { path: "limits", expected: "a list of 1 to 16", got: "a list of 0" },
    ]);
  });

  it.each([
    ["none", '"none"'],
    ["constructor", '"constructor"'],
    [5, "5"],
    ["polite-429", '"polite-429", an action: write it as onLimit.template'],
  ])("is refused for the template %j, and the policies that there are are named", async (template, got) => {
    const { call } = await startControlPlane();
    const { status, body } = await call("PUT", books, { body: { ...login, template } });
    const policies = [...library.values()].filter(({ kind }) => kind === "policy").map(({ name }) => name);
    const expected = `the name of a policy of the library: ${policies.join(", ")}`;
    expect([status, body.errors]).toEqual([400, [{ path: "template", expected, got }]]);
    const many = `${JSON.stringify({ name: "books", ...login, template })}\n`;
    const answer = await call("PUT", "/apps/default/policies", { text: many, type: "application/jsonl" });
    expect(answer.body.errors).toEqual([{ line: 1, policy: "books", path: "template", expected, got }]);
  });

  it("is told which part of the template does not go with its own fields", async () => {
    const { call } = await startControlPlane();
    const shaped = [{ algorithm: "leaky-bucket", quota: 1, window: "1s" }];
    const { errors } = (await call("PUT", books, { body: { template: "download-quota", limits: shaped } })).body;
    expect(errors).toEqual([
      {
        path: expect.stringMatching(/^(template|limits\[0\]\.algorithm)$/),
        expected: expect.any(String),
        got: expect.any(String),
      },
    ]);
    const scoped = { template: "download-quota", scope: "cluster" };
    expect((await call("PUT", books, { body: scoped })).body.errors).toEqual([
      { path: "scope", expected: expect.stringContaining("SLUICE_REDIS_URL is not set"), got: '"cluster"' },
    ]);
    expect((await call("PUT", books, { body: { template: "sms-vendor" } })).body.errors).toEqual([
      {
        path: "template",
        expected: "a template whose scope is node: cluster needs Redis, and SLUICE_REDIS_URL is not set",
        got: '"sms-vendor", where it is "cluster"',
      },
    ]);
  });
});

describe("a policy that takes a supplied action", () => {
  const polite = "/apps/default/templates/polite-429";
  const uses = { limits, onLimit: { template: "polite-429" } };

  it("is stored with a copy of it, which a later template of that name does not change", async () => {
    const { call } = await startControlPlane();
    await call("PUT", books, { body: uses });
    const stored = { name: "books", limits, ...supplied("polite-429") };
    expect((await call("GET", books)).body).toEqual(stored);
    await call("PUT", polite, { body: { onLimit: { status: 503 } } });
    expect((await call("GET", books)).body).toEqual(stored);
    expect((await call("DELETE", polite)).status).toBe(200);
  });

  it("takes the app's own template of that name, if there is one", async () => {
    const { call } = await startControlPlane();
    await call("PUT", polite, { body: { onLimit: { status: 503 } } });
    await call("PUT", books, { body: uses });
    expect((await call("GET", books)).body).toEqual({ name: "books", ...uses });
    expect((await call("DELETE", polite)).body.code).toBe("template-in-use");
  });

  it("takes it beside an own template of that name for a cost", async () => {
    const { call } = await startControlPlane();
    await call("PUT", polite, { body: { cost: 3 } });
    const both = { ...uses, cost: { template: "polite-429" } };
    await call("PUT", books, { body: both });
    expect((await call("GET", books)).body).toEqual({ name: "books", ...both, ...supplied("polite-429") });
  });

  it("may be one that takes a supplied policy, too", async () => {
    const { call } = await startControlPlane();
    await call("PUT", books, { body: { ...login, onLimit: { template: "wait-in-line" } } });
    expect((await call("GET", books)).body).toEqual({ ...loginStored, ...supplied("wait-in-line") });
  });

  it("adds nothing to it", async () => {
    const { call } = await startControlPlane();
    const { errors } = (
      await call("PUT", books, { body: { limits, onLimit: { template: "polite-429", status: 503 } } })
    ).body;
    expect(errors).toEqual([
      { path: "onLimit.status", expected: "nothing beside template: what it says is taken whole", got: "503" },
    ]);
  });
});
