import { describe, expect, it } from "vitest";
import {
  onePerSecond,
  sharedControlPlane,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { untilPasses } from "../../fixtures/until.ts";

const books = "/apps/default/policies/books";
const validate = "/apps/default/policies/validate";

const faulty = {
  name: "books",
  colour: "red",
  limits: [
    { name: "a", algorithm: "fixed-window", quota: -1, window: "1s" },
    { name: "a", algorithm: "fixed-window", quota: 1, window: "5 minutes" },
    { name: "b", algorithm: "dice", quota: 1, window: "1s" },
  ],
};

const faults = [
  { path: "colour", expected: expect.stringContaining("no such field; known here: name, "), got: '"red"' },
  { path: "limits[0].quota", expected: "an integer from 1 to 2147483648", got: "-1" },
  { path: "limits[1].name", expected: "a name that limits[0] does not have", got: '"a"' },
  { path: "limits[1].window", expected: expect.stringContaining("a duration from 1ms to 366d"), got: '"5 minutes"' },
  { path: "limits[2].algorithm", expected: expect.stringContaining("token-bucket"), got: '"dice"' },
];

function byPath(errors: { path: string }[]) {
  return [...errors].sort((a, b) => (a.path < b.path ? -1 : 1));
}

describe("validation", () => {
  const shared = sharedControlPlane();

  it("lists everything wrong with a document at once: path, expected, got", async () => {
    const { call } = shared();
    const { body } = await call("POST", validate, { body: faulty });
    expect(body.valid).toBe(false);
    expect(byPath(body.errors)).toEqual(faults);
  });

  it("answers 422 for an invalid document and 200 for a valid one, so that a script need not read the body", async () => {
    const { call } = shared();
    const invalid = await call("POST", validate, { body: faulty });
    expect([invalid.status, invalid.body.valid]).toEqual([422, false]);
    const valid = await call("POST", validate, { body: onePerSecond });
    expect([valid.status, valid.body.valid]).toEqual([200, true]);
  });

  it.each([
    "http://169.254.169.254/latest/meta-data",
    "//metadata.internal/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "/../../etc/passwd",
  ])("refuses addresses that would make a gateway connect elsewhere (SSRF): %s", async (address) => {
    const { call } = shared();
    for (const field of ["uri", "location"]) {
      const onLimit = { action: "degrade", [field]: address };
      const { status, body } = await call("PUT", books, { body: { ...onePerSecond, onLimit } });
      expect([status, body.errors.map((error: { path: string }) => error.path)]).toEqual([400, [`onLimit.${field}`]]);
    }
  });

  it("refuses to store an invalid document with the same list, and keeps what was stored", async () => {
    const { call } = await startControlPlane();
    await call("PUT", books, { body: onePerSecond });
    const { status, body } = await call("PUT", books, { body: faulty });
    expect([status, body.code]).toEqual([400, "invalid-policy"]);
    expect(byPath(body.errors)).toEqual(faults);
    expect((await call("GET", books)).body).toEqual({ name: "books", ...onePerSecond });
    expect((await call("GET", "/revisions")).body.revisions).toHaveLength(1);
  });

  it("finds a good document valid, with its name and without, and stores nothing", async () => {
    const { call } = shared();
    expect((await call("POST", validate, { body: onePerSecond })).body).toEqual({ valid: true });
    expect((await call("POST", validate, { body: { name: "p", ...onePerSecond } })).body).toEqual({ valid: true });
    expect((await call("GET", "/apps/default/policies")).body.policies).toEqual([]);
  });

  it("warns of settings without effect in a valid document, and still stores it", async () => {
    const { call } = await startControlPlane();
    const body = { ...onePerSecond, consistency: "leased" };
    const warnings = [
      { path: "consistency", expected: "exact, or scope cluster: on a node nothing is leased", got: '"leased"' },
    ];
    expect((await call("POST", validate, { body })).body).toEqual({ valid: true, warnings });
    // The warnings come again when nothing changes.
    expect((await call("PUT", books, { body })).body).toEqual({ revision: 1, warnings });
    expect((await call("PUT", books, { body })).body).toEqual({ revision: 1, warnings });
    expect((await call("GET", books)).body).toEqual({ name: "books", ...body });
    expect((await call("PUT", books, { body: onePerSecond })).body).toEqual({ revision: 2 });
    expect((await call("POST", validate, { body: { ...body, limits: [] } })).body).not.toHaveProperty("warnings");
  });

  it("warns of what reaches further than it may seem; strict refuses what there are warnings of", async () => {
    const { call } = await startControlPlane();
    const body = { limits: onePerSecond.limits };
    const paths = (problems: { path: string }[]) => problems.map(({ path }) => path);
    const validated = await call("POST", validate, { body });
    expect([validated.status, paths(validated.body.warnings)]).toEqual([200, ["key"]]);
    const strictly = await call("POST", `${validate}?strict=true`, { body });
    expect([strictly.status, strictly.body.valid, paths(strictly.body.errors)]).toEqual([422, false, ["key"]]);
    const refused = await call("PUT", `${books}?strict=true`, { body });
    expect([refused.status, refused.body.code, paths(refused.body.errors)]).toEqual([400, "invalid-policy", ["key"]]);
    expect(refused.body.detail).toBe(
      "There is 1 warning, and strict=true refuses what there are warnings of. Nothing was stored.",
    );
    expect((await call("GET", books)).status).toBe(404);
    const many = {
      text: `${JSON.stringify({ name: "books", ...body, exempt: { cidrs: ["@gone"] } })}\n`,
      type: "application/jsonl",
    };
    const all = await call("PUT", "/apps/default/policies?strict=true", many);
    expect([all.status, all.body.errors]).toMatchObject([
      400,
      [
        { line: 1, policy: "books", path: "key" },
        { line: 1, policy: "books", path: "exempt.cidrs[0]" },
      ],
    ]);
    expect(paths((await call("PUT", "/apps/default/policies", many)).body.warnings)).toEqual([
      "key",
      "exempt.cidrs[0]",
    ]);
    expect((await call("PUT", `${books}?strict=true`, { body: { ...body, key: [] } })).status).toBe(200);
  });

  it("warns of blanks around key values, which no request at a gateway has", async () => {
    const { call } = await startControlPlane();
    const { limits } = onePerSecond;
    const overridden = (...key: string[]) => ({ key, limits });
    const body = {
      key: ["header:x-id", "const:a "],
      onMissingKey: "skip",
      limits,
      overrides: [overridden("ann\u200b", "*"), overridden("ann", "a "), overridden("ann\u200b*", "*")],
      exempt: {
        keys: [
          ["\u00adbob*", "*"],
          ["*", "a "],
          ["b\u200bb", "*"],
        ],
      },
    };
    const expected = "a value without blanks around it, as gateways read header:x-id";
    expect((await call("POST", validate, { body })).body).toEqual({
      valid: true,
      warnings: [
        { path: "overrides[0].key[0]", expected, got: '"ann\u200b"' },
        { path: "exempt.keys[0][0]", expected, got: '"\u00adbob*"' },
      ],
    });
  });

  it("warns of a scope that nobody chose while several gateways are connected", async () => {
    const running = await startControlPlane();
    const warningsOf = async (scope: object) =>
      (await running.call("POST", validate, { body: { ...onePerSecond, ...scope } })).body.warnings;
    await connectGateway(running, "one");
    expect(await warningsOf({})).toBeUndefined();
    await connectGateway(running, "two");
    await untilPasses(async () => {
      expect(await warningsOf({})).toMatchObject([{ path: "scope", got: expect.stringContaining("2 times as much") }]);
    });
    expect(await warningsOf({ scope: "node" })).toBeUndefined();
  });

  it("refuses a name other than the URL's", async () => {
    const { call } = shared();
    const { status, body } = await call("PUT", books, { body: { name: "films", ...onePerSecond } });
    expect(status).toBe(400);
    expect(body.errors).toEqual([{ path: "name", expected: '"books", as in the URL, or nothing', got: '"films"' }]);
  });

  it("offers only the URL's name instead of one that no policy may have", async () => {
    const { call } = shared();
    for (const [name, got] of [
      ["Films!", '"Films!"'],
      [7, "7"],
    ]) {
      const { body } = await call("PUT", books, { body: { name, ...onePerSecond } });
      expect(body.errors).toEqual([{ path: "name", expected: '"books", as in the URL, or nothing', got }]);
    }
  });

  it("refuses a URL with an invalid name", async () => {
    const { call } = shared();
    for (const name of ["Books", "a_b", "a".repeat(64), "-a"]) {
      const { status, body } = await call("PUT", `/apps/default/policies/${name}`, { body: onePerSecond });
      expect([status, body.errors[0].path]).toEqual([400, "name"]);
    }
  });

  it("refuses cluster scope without Redis, along with the other faults", async () => {
    const clustered = { ...onePerSecond, scope: "cluster", cost: 0 };
    const without = await startControlPlane();
    expect((await without.call("PUT", books, { body: clustered })).body.errors).toEqual([
      { path: "cost", expected: "an integer from 1 to 1, or an object", got: "0" },
      { path: "scope", expected: "node: cluster needs Redis, and SLUICE_REDIS_URL is not set", got: '"cluster"' },
    ]);
    const misspelt = { body: { ...onePerSecond, scope: "clusters" } };
    expect((await without.call("PUT", books, misspelt)).body.errors).toEqual([
      { path: "scope", expected: "node: cluster needs Redis, and SLUICE_REDIS_URL is not set", got: '"clusters"' },
    ]);
    const withRedis = await startControlPlane({ SLUICE_REDIS_URL: "redis://127.0.0.1:1" });
    expect((await withRedis.call("PUT", books, misspelt)).body.errors).toMatchObject([
      { path: "scope", expected: "one of node, cluster" },
    ]);
    expect((await withRedis.call("PUT", books, { body: { ...clustered, cost: 1 } })).status).toBe(201);
  });

  it.each(["null", "[]", '"text"', "7"])("refuses %s, which is not an object", async (text) => {
    const { call } = shared();
    const { status, body } = await call("PUT", books, { text });
    expect(status).toBe(400);
    expect(body.errors[0]).toMatchObject({ path: "", expected: "an object" });
  });

  it.each(["constructor", "toString", "hasOwnProperty"])("knows no field %s", async (field) => {
    const { call } = shared();
    const { status, body } = await call("PUT", books, { body: { ...onePerSecond, [field]: 1 } });
    expect(status).toBe(400);
    expect(body.errors.map(({ path }: { path: string }) => path)).toEqual([field]);
  });
});

describe("bodies", () => {
  const shared = sharedControlPlane();

  const malformed: [string, string, string][] = [
    ["JSON that ends early", "application/json", '{"limits":['],
    ["a key twice in JSON", "application/json", '{"limits":[{"quota":1,"\\u0071uota":2}]}'],
    ["__proto__ in JSON", "application/json", '{"__proto__":{}}'],
    ["very deep JSON", "application/json", "[".repeat(200_000)],
    ["an empty JSON body", "application/json", " "],
    ["YAML that does not parse", "application/yaml", "limits: [a"],
    ["a key twice in YAML", "application/yaml", "limits: []\nlimits: []"],
    ["__proto__ in YAML", "application/yaml", "__proto__: {}"],
    ["two YAML documents", "application/yaml", "a: 1\n---\nb: 2"],
    ["a YAML key that is a list", "application/yaml", "? [a]\n: 1"],
    ["a YAML bomb", "application/yaml", yamlBomb()],
    ["very deep YAML", "application/yaml", "[".repeat(20_000)],
  ];

  it.each(malformed)("refuses %s", async (_, type, text) => {
    const { call } = shared();
    expect(await call("PUT", books, { text, type })).toMatchObject({ status: 400, body: { code: "malformed-body" } });
  });

  it.each(["application/json", "application/json; charset=utf-8", "application/yaml"])(
    "may be absent from a deletion that says %s",
    async (type) => {
      const { call } = shared();
      for (const options of [{ headers: { "content-type": type } }, { text: "", type }]) {
        await call("PUT", books, { body: onePerSecond });
        expect((await call("DELETE", books, options)).status).toBe(200);
      }
    },
  );

  it("allows the same key in two objects", async () => {
    const { call } = shared();
    const limits = ["a", "b"].map((name) => ({ name, algorithm: "fixed-window", quota: 1, window: "1s" }));
    expect((await call("PUT", books, { body: { description: 'a "quoted\\ {text', limits } })).status).toBe(201);
  });
});

function yamlBomb(): string {
  const lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"];
  for (let i = 1; i < 9; i++)
    lines.push(
      `a${i}: &a${i} [${Array(9)
        .fill(`*a${i - 1}`)
        .join(", ")}]`,
    );
  return lines.join("\n");
}
