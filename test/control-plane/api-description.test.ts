import { policyShape, type Shape } from "@sluice/limiter/policy/shape.ts";
import { validatePolicy } from "@sluice/limiter/policy/validate.ts";
import { Ajv } from "ajv";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { policySchema } from "../../control-plane/src/schemas/policy-schema.ts";
import { onePerSecond, startControlPlane } from "./control-plane-under-test.ts";
import { connectGateway } from "./gateway-double.ts";

const texts = [
  "a",
  "",
  "Books",
  "ip",
  "header:x-user",
  "10.0.0.0/8",
  "Europe/Berlin",
  "09:00",
  "18:00",
  "/api/*",
  "~^/v[0-9]+$",
  "*.example.org",
  "GET",
  "60s",
  "é".repeat(63),
  "5 minutes",
  "/api/cheap",
  "@cached",
  "x-over-limit: 1",
];

/** Documents of the shape's form, right and wrong at every place. */
function documents(shape: Shape): fc.Arbitrary<unknown> {
  switch (shape.kind) {
    case "text":
      return fc.constantFrom(...texts);
    case "integer":
      return fc.constantFrom(shape.min, shape.max, shape.min - 1, shape.max + 1, shape.min + 0.5);
    case "duration":
      return fc.constantFrom(shape.min, shape.max, "60s", "1", "-1s", "999999d");
    case "choice":
      return fc.constantFrom(...shape.of, "other");
    case "list":
      return fc.array(documents(shape.of), { maxLength: 3 });
    case "map":
      return fc.dictionary(documents(shape.names) as fc.Arbitrary<string>, documents(shape.of), { maxKeys: 3 });
    case "either":
      return fc.oneof(...shape.of.map(documents));
    case "record": {
      const fields = Object.entries(shape.fields).map(([name, field]) => [name, documents(field.shape)] as const);
      const requiredKeys = Object.keys(shape.fields).filter((name) => shape.fields[name]?.required === true);
      return fc.record(Object.fromEntries(fields), { requiredKeys });
    }
  }
}

/** Such documents with none of the values that are always wrong, so that many are valid. */
function likely(shape: Shape): fc.Arbitrary<unknown> {
  switch (shape.kind) {
    case "text":
      return fc.constantFrom(
        ...texts.filter((text) => text.length <= shape.maxBytes && (shape.accepts?.(text) ?? true)),
      );
    case "integer":
      return fc.integer({ min: shape.min, max: shape.max });
    case "duration":
      return fc.constantFrom(shape.min, shape.max, "60s");
    case "choice":
      return fc.constantFrom(...shape.of);
    case "list":
      return fc.array(likely(shape.of), { minLength: shape.minItems, maxLength: 2 });
    case "map":
      return fc.dictionary(likely(shape.names) as fc.Arbitrary<string>, likely(shape.of), { minKeys: 1, maxKeys: 2 });
    case "either":
      return fc.oneof(...shape.of.map(likely));
    case "record": {
      const fields = Object.entries(shape.fields).map(([name, field]) => [name, likely(field.shape)] as const);
      const requiredKeys = Object.keys(shape.fields).filter((name) => shape.fields[name]?.required === true);
      return fc.record(Object.fromEntries(fields), { requiredKeys });
    }
  }
}

/** Likely documents, each limit with only those of the chosen fields that its algorithm has. */
const likelyDocuments = likely(policyShape).map((document) => {
  const { overrides = [], exempt, ...rest } = document as LikelyDocument;
  const { key = [] } = rest;
  const anyKey = key.map(() => "*");
  const limits = rest.limits.map(withFieldsOfItsAlgorithm);
  return {
    ...withOnLimitOfItsAction(rest),
    limits,
    overrides: overrides.map((one) => ({ mode: "off", ...one, key: anyKey, limits })),
    ...(exempt === undefined ? {} : { exempt: { ...exempt, keys: [anyKey] } }),
  };
});

interface LikelyDocument {
  readonly limits: Record<string, unknown>[];
  readonly key?: string[];
  readonly overrides?: object[];
  readonly exempt?: object;
}

function withOnLimitOfItsAction(document: object): object {
  const { onLimit, ...others } = document as { onLimit?: Record<string, unknown> };
  if (onLimit === undefined) return others;
  const { action, status, body, headers, maxDelay, maxWaiting, uri, header } = onLimit;
  const refusal = { action, status, body, headers };
  const own: Record<string, object> = {
    delay: { ...refusal, maxDelay: maxDelay ?? "1s", maxWaiting },
    degrade: { action, uri: uri ?? "/" },
    tag: { action, header: header ?? "x-over-limit: 1" },
  };
  return { ...others, onLimit: own[`${action}`] ?? refusal };
}

function withFieldsOfItsAlgorithm(limit: Record<string, unknown>): Record<string, unknown> {
  const { algorithm, window, burst, precision, ttl, ...common } = limit;
  if (algorithm === "concurrency") return { ...common, algorithm, ttl };
  const windowed = { ...common, algorithm, window: window ?? "60s" };
  if (algorithm === "sliding-window") return { ...windowed, precision };
  return algorithm === "token-bucket" || algorithm === "leaky-bucket" ? { ...windowed, burst } : windowed;
}

function fieldPaths(shape: Shape, path: string): string[] {
  if (shape.kind === "list") return fieldPaths(shape.of, `${path}.items`);
  if (shape.kind === "either") return shape.of.flatMap((one, i) => fieldPaths(one, `${path}.anyOf.${i}`));
  if (shape.kind !== "record") return [];
  return Object.entries(shape.fields).flatMap(([name, field]) => {
    const inner = `${path}.properties.${name}`;
    return [inner, ...fieldPaths(field.shape, inner)];
  });
}

function at(node: unknown, steps: string[]): Record<string, unknown> | undefined {
  return steps.reduce<unknown>((inner, step) => (inner as Record<string, unknown> | undefined)?.[step], node) as never;
}

describe("the policy's JSON Schema", () => {
  const accepts = new Ajv({ strict: false, logger: false }).compile(policySchema);

  it("accepts every document that the validator accepts", () => {
    let valid = 0;
    const either = fc.oneof(documents(policyShape), likelyDocuments);
    fc.assert(
      fc.property(either, (document) => {
        if (validatePolicy(document).problems.length > 0) return;
        valid += 1;
        expect([document, accepts(document)]).toEqual([document, true]);
      }),
      { numRuns: 2_000 },
    );
    expect(valid).toBeGreaterThan(50);
  });

  it("refuses fields that the validator does not know, and lacks none that it knows", () => {
    expect(accepts({ name: "p", ...onePerSecond, colour: "red" })).toBe(false);
    const paths = fieldPaths(policyShape, "");
    expect(paths).toContain(".properties.limits.items.properties.window");
    expect(paths).toContain(".properties.cost.anyOf.1.properties.from");
    for (const path of paths) {
      const found = at(policySchema, path.slice(1).split("."));
      expect([path, typeof found?.["description"]]).toEqual([path, "string"]);
    }
  });
});

describe("openapi.json", () => {
  it("is OpenAPI 3.1 and describes every route of the API but the push socket", async () => {
    const { call } = await startControlPlane();
    const { body } = await call("GET", "openapi.json", { token: undefined });
    expect(body.openapi).toMatch(/^3\.1\./);
    const routes = Object.entries(body.paths).map(
      ([path, methods]) => `${path}: ${Object.keys(methods as object).join(" ")}`,
    );
    expect(routes.sort()).toEqual([
      "/api/v1/apps/{app}/bans/{ban}: get delete",
      "/api/v1/apps/{app}/bans: get post",
      "/api/v1/apps/{app}/counters: get delete post",
      "/api/v1/apps/{app}/policies/validate: post",
      "/api/v1/apps/{app}/policies/{policy}: get put delete",
      "/api/v1/apps/{app}/policies: get",
      "/api/v1/apps/{app}/templates/{template}: get put delete",
      "/api/v1/apps/{app}/templates: get",
      "/api/v1/apps/{app}: get put delete",
      "/api/v1/apps: get",
      "/api/v1/epoch: post",
      "/api/v1/gateways: get",
      "/api/v1/revisions: get",
      "/api/v1/tokens/{id}: delete",
      "/api/v1/tokens: get post",
    ]);
  });

  it("says that a policy is put as JSON or YAML, and holds no dangling reference", async () => {
    const { call } = await startControlPlane();
    const { body } = await call("GET", "openapi.json");
    const { put } = body.paths["/api/v1/apps/{app}/policies/{policy}"];
    expect(Object.keys(put.requestBody.content)).toEqual(["application/json", "application/yaml"]);
    expect(put.requestBody.content["application/yaml"].schema.properties).toHaveProperty("limits");
    const references = [...JSON.stringify(body).matchAll(/"\$ref":"#\/([^"]+)"/g)].map((match) => match[1] as string);
    expect(references.length).toBeGreaterThan(10);
    for (const reference of references) {
      expect(at(body, reference.split("/"))).toBeDefined();
    }
  });

  it("says that validate answers 200 or 422, both with what it found", async () => {
    const { call } = await startControlPlane();
    const { body } = await call("GET", "openapi.json");
    const { responses } = body.paths["/api/v1/apps/{app}/policies/validate"].post;
    const schemaOf = (status: number) => responses[status]?.content["application/json"].schema;
    const validity = { $ref: "#/components/schemas/Validity" };
    expect([schemaOf(200), schemaOf(422)]).toEqual([validity, validity]);
  });

  it("describes what the API in fact answers", async () => {
    const running = await startControlPlane();
    const { call } = running;
    const { body } = await call("GET", "openapi.json");
    const ajv = new Ajv({ strict: false, logger: false });
    ajv.addSchema({ $id: "api", ...body });
    await call("PUT", "/apps/default/policies/p", { body: onePerSecond });
    const ban = { body: { cidr: "10.0.0.0/8", for: "1h", reason: "x" } };
    const banOfKey = { body: { policy: "p", key: [], for: "1h" } };
    const caller = { body: { name: "x", app: "default", role: "caller", expiresIn: "1h" } };
    const viewer = { body: { name: "x", app: "default", role: "viewer" } };
    const made = await call("POST", "/tokens?wait=1s", caller);
    const unseen = await call("POST", "/tokens", viewer);
    const banned = await call("POST", "/apps/default/bans?wait=1s", ban);
    await call("PUT", "/apps/default/templates/t", { body: { onLimit: {} } });
    const templated = { body: { ...onePerSecond, onLimit: { template: "t" } } };
    await call("PUT", "/apps/default/policies/templated", templated);
    const gateway = await connectGateway(running, "g1");
    const limits = [{ name: "default", capacity: 1, remaining: 1, resetAfterUs: 1 }];
    gateway.say({ type: "status", counters: {}, redis: { state: "ok", sinceSeconds: 1 } });
    void gateway.next("counter").then(({ id }) => gateway.say({ type: "counter", id, limits }));
    const inVain = { ...onePerSecond, onStoreFailure: "deny" };
    const answers: [string, unknown][] = [
      ["Counter", (await call("GET", "/apps/default/counters?policy=p")).body],
      ["NewToken", made.body],
      ["NewToken", unseen.body],
      ["TokenPage", (await call("GET", "/tokens")).body],
      ["TokenChange", (await call("DELETE", `/tokens/${made.body.id}?wait=1s`)).body],
      ["TokenChange", (await call("DELETE", `/tokens/${unseen.body.id}`)).body],
      ["NewBan", banned.body],
      ["NewBan", (await call("POST", "/apps/default/bans", banOfKey)).body],
      ["Ban", (await call("GET", `/apps/default/bans/${banned.body.id}`)).body],
      ["BanPage", (await call("GET", "/apps/default/bans")).body],
      ["Template", (await call("GET", "/apps/default/templates/t")).body],
      ["TemplatePage", (await call("GET", "/apps/default/templates")).body],
      ["Policy", (await call("GET", "/apps/default/policies/templated")).body],
      ["Problem", (await call("DELETE", "/apps/default/templates/t")).body],
      ["AppPage", (await call("GET", "/apps")).body],
      ["App", (await call("GET", "/apps/default")).body],
      ["PolicyChange", (await call("PUT", "/apps/default/policies/q?wait=1s", { body: onePerSecond })).body],
      ["PolicyChange", (await call("PUT", "/apps/default/policies/q", { body: inVain })).body],
      ["Change", (await call("DELETE", "/apps/default/policies/q?wait=1s")).body],
      ["Policy", (await call("GET", "/apps/default/policies/p")).body],
      ["PolicyPage", (await call("GET", "/apps/default/policies?limit=1")).body],
      ["RevisionPage", (await call("GET", "/revisions")).body],
      ["Fleet", (await call("GET", "/gateways")).body],
      ["Validity", (await call("POST", "/apps/default/policies/validate", { body: {} })).body],
      ["Validity", (await call("POST", "/apps/default/policies/validate", { body: inVain })).body],
      ["Problem", (await call("PUT", "/apps/default/policies/p", { body: {} })).body],
    ];
    for (const [name, answer] of answers) {
      const validate = ajv.getSchema(`api#/components/schemas/${name}`);
      expect([name, validate?.(answer), validate?.errors]).toEqual([name, true, null]);
    }
  });
});
