import { describe, expect, it } from "vitest";
import { onePerSecond, perSecond, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

describe("apps", () => {
  it("have the app default from the start, and keep it", async () => {
    const { call } = await startControlPlane();
    expect((await call("GET", "/apps")).body.apps.map(({ name }: { name: string }) => name)).toEqual(["default"]);
    expect((await call("GET", "/apps/default")).status).toBe(200);
    const { status, body } = await call("DELETE", "/apps/default");
    expect([status, body.code]).toEqual([409, "app-protected"]);
  });

  it("are made once and deleted", async () => {
    const { call } = await startControlPlane();
    expect(await call("PUT", "/apps/shop")).toMatchObject({ status: 201, body: { revision: 1 } });
    expect(await call("PUT", "/apps/shop")).toMatchObject({ status: 200, body: { revision: 1 } });
    expect(await call("GET", "/apps/shop")).toMatchObject({ status: 200, body: { name: "shop", revision: 1 } });
    expect(await call("DELETE", "/apps/shop")).toMatchObject({ status: 200, body: { revision: 2 } });
    expect(await call("GET", "/apps/shop")).toMatchObject({ status: 404, body: { code: "app-not-found" } });
  });

  it("are not deleted while they have policies", async () => {
    const { call } = await startControlPlane();
    await call("PUT", "/apps/shop");
    await call("PUT", "/apps/shop/policies/p", { body: onePerSecond });
    expect(await call("DELETE", "/apps/shop")).toMatchObject({ status: 409, body: { code: "app-not-empty" } });
    await call("DELETE", "/apps/shop/policies/p");
    expect((await call("DELETE", "/apps/shop")).status).toBe(200);
  });

  it("are refused with an invalid name or an unknown field", async () => {
    const { call } = await startControlPlane();
    const named = await call("PUT", "/apps/Shop");
    expect(named).toMatchObject({
      status: 400,
      body: { code: "invalid-request", errors: [{ path: "app", got: '"Shop"' }] },
    });
    const filled = await call("PUT", "/apps/shop", { body: { owner: "me" } });
    expect(filled.body.errors).toEqual([
      { path: "owner", expected: "no such field; known here: realm, bounds, exempt", got: '"me"' },
    ]);
  });

  it("keep their exemptions until these are replaced or removed, each change in the history", async () => {
    const { call } = await startControlPlane();
    const exempt = { cidrs: ["10.0.0.0/8", "2001:db8::1"], keys: [{ part: "header:x-user", pattern: "health-*" }] };
    expect((await call("GET", "/apps/default")).body.exempt).toBeNull();
    expect((await call("PUT", "/apps/default", { body: { exempt } })).body.revision).toBe(1);
    expect((await call("PUT", "/apps/default", { body: { exempt } })).body.revision).toBe(1);
    expect((await call("PUT", "/apps/default", { body: {} })).body.revision).toBe(1);
    expect((await call("GET", "/apps/default")).body).toMatchObject({ exempt, realmState: "all" });
    expect((await call("GET", "/revisions/1")).body).toMatchObject({ action: "update-app", after: { exempt } });
    expect((await call("PUT", "/apps/default", { body: { exempt: null } })).body.revision).toBe(2);
    expect((await call("GET", "/apps/default")).body.exempt).toBeNull();
  });

  it.each([
    ["a prefix that is too long", { cidrs: ["10.0.0.0/33"] }, "exempt.cidrs[0]"],
    ["an address with a zone", { cidrs: ["fe80::1%eth0"] }, "exempt.cidrs[0]"],
    ["a mapped network of no kind", { cidrs: ["::ffff:10.0.0.0/8"] }, "exempt.cidrs[0]"],
    ["no list of networks", { cidrs: "10.0.0.0/8" }, "exempt.cidrs"],
    ["too many networks", { cidrs: Array.from({ length: 1001 }, () => "10.0.0.0/8") }, "exempt.cidrs"],
    ["an address as a key value", { keys: [{ part: "ip", pattern: "10.0.0.1" }] }, "exempt.keys[0].part"],
    ["no part of a key", { keys: [{ part: "cookies:a", pattern: "b" }] }, "exempt.keys[0].part"],
    ["a star before the end", { keys: [{ part: "header:a", pattern: "*b" }] }, "exempt.keys[0].pattern"],
    ["an empty pattern", { keys: [{ part: "header:a", pattern: "" }] }, "exempt.keys[0].pattern"],
    ["no pattern", { keys: [{ part: "header:a" }] }, "exempt.keys[0].pattern"],
    ["another field", { networks: [] }, "exempt.networks"],
  ])("refuse exemptions with %s", async (_, exempt, path) => {
    const { call } = await startControlPlane();
    const { status, body } = await call("PUT", "/apps/default", { body: { exempt } });
    expect([status, body.errors.map((error: { path: string }) => error.path)]).toEqual([400, [path]]);
    expect((await call("GET", "/apps/default")).body.exempt).toBeNull();
  });

  it("let only an admin change exemptions", async () => {
    const { call } = await startControlPlane();
    await call("PUT", "/apps/shop");
    for (const role of ["owner", "editor", "viewer"]) {
      const { token } = (await call("POST", "/tokens", { body: { name: role, app: "shop", role } })).body;
      for (const app of ["shop", "default"]) {
        const body = { exempt: { cidrs: ["0.0.0.0/0"] } };
        expect((await call("PUT", `/apps/${app}`, { body, token })).status).toBe(403);
      }
    }
  });

  it("use more of their limits for what a request keeps until it ends", async () => {
    const { call } = await startControlPlane();
    const slots = { name: "slots", algorithm: "concurrency", quota: 5 };
    const [rate] = perSecond(1).limits;
    for (const [document, limits] of [
      [{ limits: [rate, slots] }, 17],
      [{ limits: [rate, { ...rate, name: "other" }], cost: { from: "response-bytes" } }, 32],
      [{ plans: { free: [rate], pro: [slots] }, planBy: "header:x-plan", defaultPlan: "free" }, 16],
      [{ limits: [rate], cost: { from: "request-bytes" } }, 1],
    ] as const) {
      await call("PUT", "/apps/default/policies/a", { body: document });
      expect([document, (await call("GET", "/apps/default")).body.used.limits]).toEqual([document, limits]);
    }
  });

  it("have limits, and kinds of keys, within their bounds, however they change", async () => {
    const { call } = await startControlPlane();
    await call("PUT", "/apps/shop", { body: { bounds: { limits: 4, kinds: 3 } } });
    const refused = (bound: string, used: number, allowed: number, wanted: number) => ({
      status: 409,
      body: { code: "bound-exceeded", bounds: [{ bound, of: "app", used, allowed, wanted }] },
    });
    const limits = (count: number) =>
      Array.from({ length: count }, (_, i) => ({ ...perSecond(1).limits[0], name: `l${i}` }));
    const of = (count: number, more: object = {}) => ({ ...perSecond(1), limits: limits(count), ...more });
    const key = ["header:x-user"];
    const overrides = [
      { key: ["a"], limits: limits(1) },
      { key: ["bc*"], mode: "off" },
    ];
    const whole = { name: "a", ...of(2, { key, overrides, exempt: { keys: [["d"], ["e"]] } }) };
    const put = (...policies: object[]) => {
      const text = policies.map((policy) => JSON.stringify(policy)).join("\n");
      return call("PUT", "/apps/shop/policies", { text, type: "application/jsonl" });
    };
    const used = async () => (await call("GET", "/apps/shop")).body.used;
    const { revision } = (await put(whole)).body;
    expect(await used()).toMatchObject({ limits: 2, kinds: 3 });
    expect(await call("PUT", "/apps/shop/policies/b", { body: of(3) })).toMatchObject(refused("limits", 2, 4, 3));
    const more = { body: of(1, { key, exempt: { keys: [["d"]] } }) };
    expect(await call("PUT", "/apps/shop/policies/b", more)).toMatchObject(refused("kinds", 3, 3, 1));
    const larger = { body: of(5, { key }) };
    expect(await call("PUT", "/apps/shop/policies/a", larger)).toMatchObject(refused("limits", 2, 4, 3));
    expect(await put({ name: "b", ...of(1) }, { name: "c", ...of(2) })).toMatchObject(refused("limits", 2, 4, 3));
    await call("PUT", "/apps/shop/policies/a", { body: of(4, { key }) });
    expect(await used()).toMatchObject({ limits: 4, kinds: 0 });
    const rollBack = () => call("POST", `/revisions/${revision}/rollback`, { body: { app: "shop" } });
    await call("PUT", "/apps/shop/policies/a", { body: of(1) });
    await call("PUT", "/apps/shop/policies/b", { body: of(3) });
    expect((await rollBack()).status).toBe(200);
    expect(await used()).toMatchObject({ limits: 2, kinds: 3 });
    await call("DELETE", "/apps/shop/policies/a");
    expect(await used()).toMatchObject({ limits: 0, kinds: 0 });
  });

  it("may have policies of the same name", async () => {
    const { call } = await startControlPlane();
    await call("PUT", "/apps/shop");
    await call("PUT", "/apps/shop/policies/p", { body: { ...onePerSecond, description: "shop's" } });
    await call("PUT", "/apps/default/policies/p", { body: { ...onePerSecond, description: "default's" } });
    expect((await call("GET", "/apps/shop/policies/p")).body.description).toBe("shop's");
    expect((await call("GET", "/apps/default/policies/p")).body.description).toBe("default's");
  });
});
