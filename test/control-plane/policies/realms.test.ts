// Tests an app's realm in the API: who sets it, and which of an app's policies and templates it refuses. Each test of an
// abuse is named after what an app's editor tries.

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { loadSnapshot } from "../../fixtures/documents/loaded-state.ts";
import {
  type CallOptions,
  onePerSecond,
  type Running,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { beforeRealms } from "../storage/older-schemas.ts";

const crm = { hosts: ["crm.test", "*.crm.test"], paths: ["/api/crm"], redirects: ["@cached", "/internal/cheap"] };
const within = { ...onePerSecond, match: { hosts: ["crm.test"], paths: ["/api/crm/*"] } };

/** Starts with the app crm. @returns calls within the app by a token of this role */
async function startWith(realm: object | undefined, role = "editor") {
  const running = await startControlPlane();
  const made = await running.call("PUT", "/apps/crm", realm === undefined ? {} : { body: { realm } });
  expect(made.status).toBe(201);
  const { body } = await running.call("POST", "/tokens", { body: { name: "e", app: "crm", role } });
  const call = (method: string, path: string, options: CallOptions = {}) =>
    running.call(method, `/apps/crm${path}`, { token: body.token, ...options });
  return { running, call };
}

const pathsOf = ({ body }: { body: { errors?: { path: string }[] } }) => body.errors?.map(({ path }) => path);

describe("a realm", () => {
  it("is set by an admin of all apps, shown, kept by a body without one, and removed by null", async () => {
    const { call } = await startControlPlane();
    expect(await call("PUT", "/apps/crm", { body: { realm: crm } })).toMatchObject({
      status: 201,
      body: { revision: 1 },
    });
    expect((await call("GET", "/apps/crm")).body).toMatchObject({ name: "crm", realm: crm, realmState: "set" });
    for (const options of [{}, { body: {} }, { body: { realm: crm } }]) {
      expect((await call("PUT", "/apps/crm", options)).body).toEqual({ revision: 1 });
    }
    expect((await call("PUT", "/apps/crm", { body: { realm: null } })).body).toEqual({ revision: 2 });
    expect((await call("GET", "/apps")).body.apps).toMatchObject([
      { name: "crm", realm: null, realmState: "none" },
      { name: "default", realm: null, realmState: "all" },
    ]);
    const yaml = "realm:\n  paths: [/api/crm]\n";
    expect((await call("PUT", "/apps/crm", { text: yaml, type: "application/yaml" })).body).toEqual({ revision: 3 });
    expect((await call("GET", "/apps/crm")).body.realm).toEqual({ paths: ["/api/crm"] });
  });

  it("honours If-Match, and its changes are pushed, and recorded with before and after", async () => {
    const running = await startControlPlane();
    const { call } = running;
    await call("PUT", "/apps/crm");
    await call("PUT", "/apps/crm/policies/p", { body: onePerSecond });
    const gateway = await connectGateway(running, "g1");
    expect(await gateway.next("snapshot")).toMatchObject({ apps: [{ app: "crm" }] });
    const stale = await call("PUT", "/apps/crm", { body: { realm: {} }, headers: { "if-match": '"9"' } });
    expect([stale.status, stale.body.code, stale.body.etag]).toEqual([412, "precondition-failed", '"1"']);
    const set = await call("PUT", "/apps/crm", { body: { realm: {} }, headers: { "if-match": '"1"' } });
    expect([set.status, set.headers.get("etag")]).toEqual([200, '"3"']);
    expect((await call("GET", "/apps/crm")).headers.get("etag")).toBe('"3"');
    const pushed = await gateway.next("snapshot");
    expect(pushed).toMatchObject({ revision: 3, apps: [{ app: "crm", realm: { hosts: [], paths: [] } }] });
    expect(loadSnapshot(pushed).problems).toEqual([]);
    const [newest] = (await call("GET", "/revisions")).body.revisions;
    expect(newest).toMatchObject({ n: 3, action: "update-app", app: "crm", summary: "changed app crm" });
    const row = await running.app.database
      .selectFrom("revisions")
      .selectAll()
      .where("number", "=", 3)
      .executeTakeFirst();
    expect([row?.before, row?.after]).toEqual(["{}", '{"realm":{}}']);
  });

  it("is refused with the field if it is invalid, and for the app default, which has everything", async () => {
    const { call } = await startControlPlane();
    const realm = { hosts: ["CRM"], paths: ["/x/", "/ok"], redirects: ["/sluice/metrics"], owner: 1 };
    const refused = await call("PUT", "/apps/crm", { body: { realm, extra: 1 } });
    expect([refused.status, refused.body.code]).toEqual([400, "invalid-request"]);
    expect(pathsOf(refused)).toEqual([
      "realm.hosts[0]",
      "realm.paths[0]",
      "realm.redirects[0]",
      "realm.owner",
      "extra",
    ]);
    for (const body of [[], { realm: "x" }, { realm: [] }, { realm: null, extra: 1 }]) {
      expect((await call("PUT", "/apps/crm", { body })).status).toBe(400);
    }
    expect((await call("GET", "/apps/crm")).status).toBe(404);
    for (const own of [{}, null]) {
      const answer = await call("PUT", "/apps/default", { body: { realm: own } });
      expect([answer.status, answer.body.code]).toEqual([409, "app-protected"]);
    }
  });

  it("is refused if policies are outside of it, naming them and their fields, so that nothing stops silently", async () => {
    const { running, call } = await startWith({ paths: ["/api"] });
    await call("PUT", "/policies/inside", { body: within });
    await call("PUT", "/policies/outside", { body: { ...onePerSecond, match: { paths: ["/api/crm", "/api/erp"] } } });
    await call("PUT", "/templates/cheap", { body: { onLimit: { action: "degrade", uri: "/api/cheap" } } });
    await call("PUT", "/policies/templated", { body: { ...within, onLimit: { template: "cheap" } } });
    const narrowed = await running.call("PUT", "/apps/crm", { body: { realm: crm } });
    expect(narrowed).toMatchObject({
      status: 409,
      body: { code: "outside-realm", policies: ["outside", "templated"] },
    });
    expect(pathsOf(narrowed)).toEqual([
      "policies.outside.match.hosts",
      "policies.outside.match.paths[1]",
      "policies.templated.onLimit.template",
    ]);
    expect((await running.call("GET", "/apps/crm")).body.realm).toEqual({ paths: ["/api"] });
    await call("DELETE", "/policies/outside");
    await call("DELETE", "/policies/templated");
    expect((await running.call("PUT", "/apps/crm", { body: { realm: crm } })).status).toBe(200);
  });

  it("that is removed gives a warning that the policies match no traffic now", async () => {
    const { running, call } = await startWith(crm);
    await call("PUT", "/policies/p", { body: within });
    const { body } = await running.call("PUT", "/apps/crm", { body: { realm: null } });
    expect(body.warnings).toEqual([
      { path: "realm", expected: "a realm for app crm", got: "none: its policy matches no traffic now" },
    ]);
  });
});

describe("an app without a realm", () => {
  it("takes any policy, and warns with each that it matches no traffic", async () => {
    const { running, call } = await startWith(undefined);
    const put = await call("PUT", "/policies/p", { body: onePerSecond });
    expect(put.body.warnings).toMatchObject([{ path: "match", got: expect.stringContaining("check API") }]);
    expect((await call("POST", "/policies/validate", { body: onePerSecond })).body.warnings).toHaveLength(1);
    const snapshot = await (await connectGateway(running, "g1")).next("snapshot");
    expect(loadSnapshot(snapshot).snapshot?.index.everywhere).toEqual([]);
  });
});

describe("an app from before there were realms", () => {
  it("matches as before, with a warning at the start and at each PUT, until an admin sets a realm", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const first = await startControlPlane({ SLUICE_DATA_DIR });
    await first.call("PUT", "/apps/old");
    await first.call("PUT", "/apps/old/policies/p", { body: onePerSecond });
    await first.stop();
    const database = new DatabaseSync(join(SLUICE_DATA_DIR, "sluice.db"));
    database.exec(beforeRealms);
    database.close();

    const lines: string[] = [];
    const running = await startControlPlane(
      { SLUICE_DATA_DIR, SLUICE_LOG_LEVEL: "warn" },
      { logTo: { write: (line) => void lines.push(line) } },
    );
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { level: 40, apps: ["old"], msg: expect.stringContaining("set a realm by PUT /api/v1/apps/{app}") },
    ]);
    expect((await running.call("GET", "/apps")).body.apps).toMatchObject([
      { name: "default", realmState: "all" },
      { name: "old", realm: null, realmState: "legacy" },
    ]);
    const { warnings } = (await running.call("PUT", "/apps/old/policies/p", { body: onePerSecond })).body;
    expect(warnings).toMatchObject([{ path: "match", got: expect.stringContaining("before there were realms") }]);
    expect((await running.call("PUT", "/apps/old")).status).toBe(200);
    const gateway = await connectGateway(running, "g1");
    const snapshot = await gateway.next("snapshot");
    expect(snapshot).not.toHaveProperty("apps");
    expect(loadSnapshot(snapshot).snapshot?.index.everywhere).toHaveLength(1);

    expect((await running.call("PUT", "/apps/old", { body: { realm: crm } })).body.code).toBe("outside-realm");
    expect((await running.call("PUT", "/apps/old", { body: { realm: {} } })).status).toBe(200);
    expect((await running.call("PUT", "/apps/old/policies/p", { body: onePerSecond })).body).not.toHaveProperty(
      "warnings",
    );
  });
});

describe("an app's editor is refused, with the field,", () => {
  it("a policy that matches another app's hosts or paths", async () => {
    const { call } = await startWith(crm);
    expect((await call("PUT", "/policies/p", { body: within })).status).toBe(201);
    for (const [match, ...paths] of [
      [undefined, "match.hosts", "match.paths"],
      [{ hosts: ["bank.test"], paths: ["/api/crm"] }, "match.hosts[0]"],
      [{ hosts: ["crm.test", "*.test"], paths: ["/api/crm"] }, "match.hosts[1]"],
      [{ hosts: ["crm.test"], paths: ["/login"] }, "match.paths[0]"],
      [{ hosts: ["crm.test"], paths: ["/api/crm*"] }, "match.paths[0]"],
      [{ hosts: ["crm.test"], paths: ["~^/api/crm|/login"] }, "match.paths[0]"],
    ] as const) {
      const body = { ...onePerSecond, match };
      for (const answer of [
        await call("PUT", "/policies/q", { body }),
        await call("PUT", "/policies/p", { body }),
        await call("POST", "/policies/validate", { body }),
      ]) {
        expect([match, answer.status >= 400, pathsOf(answer)]).toEqual([match, true, paths]);
      }
    }
    // All other faults are reported together with it.
    const wrong = await call("PUT", "/policies/q", {
      body: { ...onePerSecond, key: "ip", match: { hosts: ["a.test"] } },
    });
    expect(pathsOf(wrong)).toEqual(["key", "match.hosts[0]", "match.paths"]);
    expect((await call("GET", "/policies/p")).body).toMatchObject(within);
    expect((await call("GET", "/policies/q")).status).toBe(404);
  });

  it("a realm other than the admin's, also as an admin of the app", async () => {
    for (const role of ["editor", "owner"]) {
      const { call } = await startWith(crm, role);
      expect((await call("PUT", "", { body: { realm: {} } })).status).toBe(403);
    }
  });

  it("a redirect to another app's paths, to locations that no admin lists, and to Sluice's own", async () => {
    const { running, call } = await startWith(crm);
    const degrade = (to: object) => ({ ...within, onLimit: { action: "degrade", ...to } });
    for (const to of [{ uri: "/api/crm/cheap" }, { uri: "/internal/cheap" }, { location: "@cached" }]) {
      expect((await call("PUT", "/policies/p", { body: degrade(to) })).status).toBeLessThan(300);
      expect((await call("PUT", "/templates/t", { body: { onLimit: degrade(to).onLimit } })).status).toBeLessThan(300);
    }
    for (const [to, field] of [
      [{ uri: "/login" }, "onLimit.uri"],
      [{ uri: "/sluice/healthz" }, "onLimit.uri"],
      [{ uri: "/api/crm%78" }, "onLimit.uri"],
      [{ location: "@other" }, "onLimit.location"],
    ] as const) {
      const put = await call("PUT", "/policies/q", { body: degrade(to) });
      expect([to, put.body.code, pathsOf(put)]).toEqual([to, "invalid-policy", [field]]);
      const template = await call("PUT", "/templates/t", { body: { onLimit: degrade(to).onLimit } });
      expect([to, template.body.code, pathsOf(template)]).toEqual([to, "invalid-template", [field]]);
    }
    // This applies to everybody, in every app.
    for (const uri of ["/sluice/healthz", "/%73luice/metrics?x", "/.//sluice/v1/check"]) {
      const put = await running.call("PUT", "/apps/default/policies/p", { body: degrade({ uri }) });
      expect([uri, pathsOf(put)]).toEqual([uri, ["onLimit.uri"]]);
      const template = await running.call("PUT", "/apps/default/templates/t", {
        body: { onLimit: degrade({ uri }).onLimit },
      });
      expect([uri, pathsOf(template)]).toEqual([uri, ["onLimit.uri"]]);
    }
    for (const to of [{ uri: "/login" }, { location: "@any" }]) {
      expect((await running.call("PUT", "/apps/default/policies/p", { body: degrade(to) })).status).toBeLessThan(300);
    }
  });

  it.each(["editor", "owner"])(
    "as an %s of the app, headers that speak for others; an admin of all apps may set them",
    async (role) => {
      const { running, call } = await startWith(crm, role);
      const stolen = "authorization: Bearer stolen";
      const documents: [object, string][] = [
        [{ action: "tag", header: stolen }, "onLimit.header"],
        [{ action: "degrade", header: "X-Forwarded-For: 10.0.0.1" }, "onLimit.header"],
        [{ headers: ["x-a: b", "set-cookie: sid=evil"] }, "onLimit.headers[1]"],
        [{ action: "degrade", response: { headers: ["Set-Cookie: sid=evil"] } }, "onLimit.response.headers[0]"],
      ];
      for (const [onLimit, field] of documents) {
        const put = await call("PUT", "/policies/p", { body: { ...within, onLimit } });
        expect([onLimit, put.status, pathsOf(put)]).toEqual([onLimit, 400, [field]]);
        const template = await call("PUT", "/templates/t", { body: { onLimit } });
        expect([onLimit, template.status, pathsOf(template)]).toEqual([onLimit, 400, [field]]);
        expect(
          (await running.call("PUT", "/apps/crm/policies/p", { body: { ...within, onLimit } })).status,
        ).toBeLessThan(300);
      }
      // An editor cannot move an admin's header to other traffic.
      const [[tag]] = documents as [[object, string]];
      await running.call("PUT", "/apps/crm/policies/p", { body: { ...within, onLimit: tag } });
      const moved = { ...within, match: { ...within.match, paths: ["/api/crm/other"] }, onLimit: tag };
      expect(pathsOf(await call("PUT", "/policies/p", { body: moved }))).toEqual(["onLimit.header"]);
      // An editor may refer to a template that an admin has made, and may not change it.
      await running.call("PUT", "/apps/crm/templates/signed", { body: { onLimit: tag } });
      expect((await call("PUT", "/policies/q", { body: { ...within, onLimit: { template: "signed" } } })).status).toBe(
        201,
      );
      const changed = { onLimit: { action: "tag", header: "authorization: Bearer other" } };
      expect(pathsOf(await call("PUT", "/templates/signed", { body: changed }))).toEqual(["onLimit.header"]);
    },
  );

  it("headers that speak for others, as the editor of default too", async () => {
    const running: Running = await startControlPlane();
    const { body } = await running.call("POST", "/tokens", { body: { name: "e", app: "default", role: "editor" } });
    const onLimit = { action: "tag", header: "cookie: sid=admin" };
    const put = await running.call("PUT", "/apps/default/policies/p", {
      token: body.token,
      body: { ...onePerSecond, onLimit },
    });
    expect(pathsOf(put)).toEqual(["onLimit.header"]);
  });

  it.each([
    ["X-Forwarded: for=10.0.0.1", "tag"],
    ["x-webauth-user: admin", "tag"],
    ["remote-groups: admin", "tag"],
    ["x-amzn-oidc-identity: admin", "tag"],
    ["x-consumer-username: admin", "tag"],
    ["cf-access-jwt-assertion: x", "tag"],
    ["client-cert: :x:", "tag"],
    // A browser applies these headers of one answer to the whole host.
    ['nel: {"report_to":"e","include_subdomains":true,"max_age":9}', "answer"],
    ['report-to: {"group":"e","max_age":9,"endpoints":[]}', "answer"],
    ["public-key-pins: x", "answer"],
    ["origin-agent-cluster: ?0", "answer"],
  ])("a header by which proxies name somebody, or which holds for a whole host: %s", async (header, where) => {
    const running = await startControlPlane();
    const { body } = await running.call("POST", "/tokens", { body: { name: "e", app: "default", role: "editor" } });
    const onLimit = where === "tag" ? { action: "tag", header } : { headers: [header] };
    const put = await running.call("PUT", "/apps/default/policies/p", {
      token: body.token,
      body: { ...onePerSecond, onLimit },
    });
    expect(pathsOf(put)).toEqual([where === "tag" ? "onLimit.header" : "onLimit.headers[0]"]);
  });
});
