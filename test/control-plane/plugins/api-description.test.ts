import { Validator } from "@seriousme/openapi-schema-validator";
import { policyShape } from "@sluice/limiter/document/policy-shape.ts";
import type { Shape } from "@sluice/limiter/document/shape.ts";
import { validatePolicy } from "@sluice/limiter/document/validate.ts";
import { Ajv } from "ajv";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { policySchema } from "../../../control-plane/src/schemas/policy-schema.ts";
import { schemasInUse } from "../../../control-plane/src/schemas/validators.ts";
import { documents, likelyDocuments } from "../../fixtures/documents/policy-documents.ts";
import { adminToken, onePerSecond, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";

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

it("holds requests to schemas that are valid JSON Schemas, which no start checks", async () => {
  await startControlPlane();
  const ajv = new Ajv({ strict: false, formats: { wait: true } });
  const schemas = schemasInUse();
  expect(schemas.length).toBeGreaterThan(5);
  for (const schema of schemas) expect([ajv.validateSchema(schema), ajv.errors]).toEqual([true, null]);
});

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
      { numRuns: 5_000 },
    );
    expect(valid).toBeGreaterThan(50);
  });

  it("refuses unknown fields, and lacks none that the validator knows", () => {
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
  it("is valid OpenAPI 3.1 and describes every route", async () => {
    const { app, call } = await startControlPlane();
    const { body } = await call("GET", "openapi.json", { token: undefined });
    const { valid, errors } = await new Validator().validate(body);
    expect([valid, errors, body.openapi]).toEqual([true, undefined, "3.1.0"]);
    const described = Object.entries(body.paths).flatMap(([path, methods]) =>
      Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const routes = app.routeTable.map(({ method, url }) => `${method} ${url.replaceAll(/:(\w+)/g, "{$1}")}`);
    expect(routes.length).toBeGreaterThan(35);
    expect(described.sort()).toEqual(routes.sort());
  });

  it("says that a policy is put as JSON or YAML, and has no dangling reference", async () => {
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

  it("describes the actual answers of the API", async () => {
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
    const undeletedToken = (await call("POST", "/tokens", viewer)).body.token;
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
      ["AppChange", (await call("PUT", "/apps/shop?wait=1s", { body: { realm: { paths: ["/shop"] } } })).body],
      ["App", (await call("GET", "/apps/shop")).body],
      ["Problem", (await call("PUT", "/apps/default", { body: { realm: {} } })).body],
      ["PolicyChange", (await call("PUT", "/apps/default/policies/q?wait=1s", { body: onePerSecond })).body],
      ["PolicyChange", (await call("PUT", "/apps/default/policies/q", { body: inVain })).body],
      ["Change", (await call("DELETE", "/apps/default/policies/q?wait=1s")).body],
      ["Policy", (await call("GET", "/apps/default/policies/p")).body],
      ["PolicyPage", (await call("GET", "/apps/default/policies?limit=1")).body],
      ["RevisionPage", (await call("GET", "/revisions")).body],
      ["Session", (await call("POST", "/session", { token: undefined, body: { token: adminToken } })).body],
      ["Session", (await call("GET", "/session", { token: undeletedToken })).body],
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
