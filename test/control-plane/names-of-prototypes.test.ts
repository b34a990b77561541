// Sends names of prototypes wherever a client may send a name or a value: the control plane must never fail by them.

import { policyShape } from "@sluice/limiter/document/policy-shape.ts";
import { validatePolicy } from "@sluice/limiter/document/validate.ts";
import { snapshotFormat } from "@sluice/limiter/protocol/push-messages.ts";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readGatewayMessage } from "../../control-plane/src/push/gateway-message.ts";
import { loadSnapshot } from "../fixtures/documents/loaded-state.ts";
import { namesOfPrototypes } from "../fixtures/documents/names-of-prototypes.ts";
import {
  type Answer,
  onePerSecond,
  type Running,
  startControlPlane,
} from "../fixtures/servers/control-plane-under-test.ts";

const document = {
  name: "p",
  description: "text",
  mode: "enforce",
  priority: 1,
  match: { hosts: ["a.test"], paths: ["/a"], methods: ["GET"], headers: { "x-plan": ["free"] } },
  key: ["ip", "header:x-user"],
  onMissingKey: "skip",
  limits: [{ name: "l", algorithm: "token-bucket", quota: 2, window: "1s", burst: 3 }],
  cost: { from: "header:x-cost", default: 1, max: 2 },
  scope: "node",
  consistency: "exact",
  onStoreFailure: "local",
  onLimit: { action: "reject", status: 429, body: "no", headers: ["x-a: 1"] },
  overrides: [
    { key: ["*", "vip"], mode: "off", limits: [{ name: "l", algorithm: "token-bucket", quota: 2, window: "1s" }] },
  ],
  exempt: { cidrs: ["10.0.0.0/8"], keys: [["*", "a"]] },
  schedule: { timezone: "Europe/Berlin", windows: [{ days: ["mon"], from: "09:00", to: "18:00" }] },
};

const ban = { policy: "p", key: ["*", "a"], for: "1h", reason: "why" };
const token = { name: "t", app: "default", role: "viewer", expiresIn: "1h" };
const topUp = { policy: "p", key: ["10.0.0.1", "a"], limit: "l", units: 1 };
const template = { onLimit: { action: "reject", status: 429 } };
const names = fc.constantFrom(...namesOfPrototypes);

type Step = string | number;

/** @returns the paths to every value in a document, and to the document itself */
function placesIn(value: unknown, path: Step[] = []): Step[][] {
  if (typeof value !== "object" || value === null) return [path];
  const inner = Object.entries(value).flatMap(([name, one]) =>
    placesIn(one, [...path, Array.isArray(value) ? Number(name) : name]),
  );
  return [path, ...inner];
}

/** @returns JSON with the name at this place: as its value, or as a further field or element */
function withName(value: unknown, [step, ...rest]: Step[], name: string, how: string): string {
  if (step === undefined) {
    if (how === "value" || typeof value !== "object" || value === null) return JSON.stringify(name);
    if (Array.isArray(value)) return JSON.stringify([...value, name]);
    // The text is written by hand, because a JavaScript object would not hold such a field as its own.
    const fields = Object.entries(value).map(([own, one]) => `${JSON.stringify(own)}:${JSON.stringify(one)}`);
    return `{${[...fields, `${JSON.stringify(name)}:${JSON.stringify(how === "list" ? [name] : name)}`].join(",")}}`;
  }
  const entries = Object.entries(value as object).map(([own, one]) => {
    const text = own === String(step) ? withName(one, rest, name, how) : JSON.stringify(one);
    return Array.isArray(value) ? text : `${JSON.stringify(own)}:${text}`;
  });
  return Array.isArray(value) ? `[${entries.join(",")}]` : `{${entries.join(",")}}`;
}

function bodies(value: object): fc.Arbitrary<string> {
  return fc
    .tuple(fc.constantFrom(...placesIn(value)), names, fc.constantFrom("value", "field", "list"))
    .map(([path, name, how]) => withName(value, path, name, how));
}

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly text?: string;
  readonly type?: string;
}

const types = fc.constantFrom("application/json", "application/yaml");
const orName = (usual: string) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: names });

function put(method: string, path: fc.Arbitrary<string>, body: object): fc.Arbitrary<Asked> {
  return fc.record({ method: fc.constant(method), path, text: bodies(body), type: types });
}

const under = (list: string, usual: string) =>
  fc.tuple(orName("default"), orName(usual)).map(([app, name]) => `/apps/${app}/${list}/${name}`);
const of = (list: string) => orName("default").map((app) => `/apps/${app}/${list}`);

const requests: fc.Arbitrary<Asked> = fc.oneof(
  put("PUT", under("policies", "p"), document),
  put("POST", of("policies/validate"), document),
  put("PUT", under("templates", "t"), template),
  put("POST", of("bans"), ban),
  put("POST", of("counters"), topUp),
  put("POST", fc.constant("/tokens"), token),
  put(
    "PUT",
    names.map((name) => `/apps/${name}`),
    {},
  ),
  put("PUT", fc.constant("/apps/default/policies/q"), { ...onePerSecond, onLimit: { template: "t" } }),
  fc
    .tuple(
      fc.constantFrom("GET", "DELETE", "HEAD", "PATCH"),
      fc.oneof(
        names.map((name) => `/apps/${name}`),
        under("policies", "none"),
        under("templates", "none"),
        under("bans", "none"),
        names.map((name) => `/tokens/${name}`),
        names.map((name) => `/${name}`),
        fc.tuple(names, names).map(([a, b]) => `/apps/default/counters?policy=${a}&key=${b}&key=${a}`),
        fc.tuple(names, names).map(([a, b]) => `/apps/default/counters?policy=p&key=10.0.0.1&key=${a}&${b}=${a}`),
        fc.tuple(names, names).map(([a, b]) => `/apps?after=${a}&${b}=1`),
        fc.tuple(names, names).map(([a, b]) => `/revisions?limit=${a}&${b}=`),
        fc.tuple(names, names).map(([a, b]) => `/apps/default/policies?after=${a}&limit=${b}`),
      ),
    )
    .map(([method, path]) => ({ method, path })),
);

async function send({ call }: Running, { method, path, text, type }: Asked): Promise<Answer> {
  return call(method, path, text === undefined ? {} : { text, type: type ?? "application/json" });
}

describe("names of prototypes", () => {
  it("are not actions of onLimit", () => {
    for (const action of namesOfPrototypes) {
      const { problems } = validatePolicy({ ...document, onLimit: { action } });
      expect(problems).toEqual([
        { path: "onLimit.action", expected: "one of reject, delay, degrade, tag", got: `"${action}"` },
      ]);
    }
  });

  it("are not algorithms, modes, durations, key parts, costs, days or zones, and not fields anywhere", () => {
    for (const path of placesIn(document)) {
      for (const name of namesOfPrototypes) {
        for (const how of ["value", "field", "list"]) {
          // JSON.parse makes even __proto__ a field of its own.
          expect(() => validatePolicy(JSON.parse(withName(document, path, name, how)))).not.toThrow();
        }
      }
    }
    expect(Object.keys(policyShape.fields)).toEqual(expect.arrayContaining(Object.keys(document)));
  });

  it("in any place of any request are answered with what is wrong, and never with 500", async () => {
    const running = await startControlPlane();
    expect((await running.call("PUT", "/apps/default/policies/p", { body: document })).status).toBe(201);
    let answered = 0;
    await fc.assert(
      fc.asyncProperty(requests, async (asked) => {
        const { status } = await send(running, asked);
        answered += 1;
        // 503 is expected, since there is no Redis here.
        expect([asked, status < 500 || status === 503]).toEqual([asked, true]);
      }),
      { numRuns: 600 },
    );
    expect(answered).toBeGreaterThanOrEqual(600);
    // None of these requests harmed later ones.
    expect((await running.call("GET", "/apps/default/policies/p")).status).toBe(200);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  it("as app, policy, template, header and key value are names like others", async () => {
    const { call } = await startControlPlane();
    for (const name of ["constructor", "prototype"]) {
      expect((await call("PUT", `/apps/${name}`)).status).toBe(201);
      const onLimit = { status: 429, headers: ["constructor: 1", "valueof: 2"] };
      expect((await call("PUT", `/apps/${name}/templates/${name}`, { body: { onLimit } })).status).toBe(201);
      const policy = {
        ...onePerSecond,
        match: { headers: { constructor: ["toString"], valueof: ["__proto__"] } },
        key: ["header:constructor"],
        limits: [{ name: "constructor", algorithm: "fixed-window", quota: 1, window: "1s" }],
        overrides: [{ key: ["__proto__"], mode: "off" }],
        onLimit: { template: name },
      };
      expect(await call("PUT", `/apps/${name}/policies/${name}`, { body: policy })).toMatchObject({ status: 201 });
      const missing = await call("PUT", `/apps/${name}/policies/q`, {
        body: { ...onePerSecond, onLimit: { template: "valueOf" } },
      });
      expect([missing.status, missing.body.errors[0].path]).toEqual([400, "onLimit.template"]);
      expect((await call("GET", `/apps/${name}/policies/${name}`)).body.match).toEqual(policy.match);
    }
  });

  it("from a gateway are not types of messages, and are counters like others", () => {
    for (const name of namesOfPrototypes) {
      expect(readGatewayMessage(JSON.stringify({ type: name }))).toBeUndefined();
      const counters = `{"type":"status","counters":{${JSON.stringify(name)}:1}}`;
      expect(JSON.stringify(readGatewayMessage(counters))).toBe(counters);
    }
  });

  it("in a snapshot are apps, policies, zones and bans like others", () => {
    for (const name of ["constructor", "prototype"]) {
      const policy = { ...document, name, schedule: { ...document.schedule, timezone: name } };
      const snapshot = {
        type: "snapshot",
        format: snapshotFormat,
        epoch: name,
        revision: 1,
        zones: { [name]: [[0, 60]] },
        bans: [{ id: name, app: name, policy: name, key: ["*", name], untilSeconds: 1 }],
        callers: [],
        policies: [{ app: name, document: policy }],
      };
      const read = loadSnapshot(snapshot);
      expect(read.problems).toEqual([]);
      expect(read.snapshot?.policiesByName[name]?.[name]?.name).toBe(name);
      expect(read.snapshot?.policiesByName["valueOf"]).toBeUndefined();
      // No zone of that name was sent; the property of that name that every object inherits is no zone.
      expect(loadSnapshot({ ...snapshot, zones: {} }).problems.map(({ path }) => path)).toEqual([`zones.${name}`]);
    }
  });

  it("5,000 lists within one another in the body of an app are refused as a body", async () => {
    const { call } = await startControlPlane();
    for (const text of [`{"a":${"[".repeat(5_000)}${"]".repeat(5_000)}}`, `${"[".repeat(5_000)}${"]".repeat(5_000)}`]) {
      for (const type of ["application/json", "application/yaml"]) {
        const { status, body } = await call("PUT", "/apps/deep", { text, type });
        expect([status, body.code]).toEqual([400, "malformed-body"]);
      }
    }
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, i]));
    expect((await call("PUT", "/apps/deep", { body: many(1_001) })).body).toMatchObject({ code: "malformed-body" });
    const { status, body } = await call("PUT", "/apps/deep", { body: many(1_000) });
    expect([status, body.errors.length]).toEqual([400, 101]);
  });
});
