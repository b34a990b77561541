import { describe, expect, it } from "vitest";
import { onePerSecond, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

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

  it("may have policies of the same name", async () => {
    const { call } = await startControlPlane();
    await call("PUT", "/apps/shop");
    await call("PUT", "/apps/shop/policies/p", { body: { ...onePerSecond, description: "shop's" } });
    await call("PUT", "/apps/default/policies/p", { body: { ...onePerSecond, description: "default's" } });
    expect((await call("GET", "/apps/shop/policies/p")).body.description).toBe("shop's");
    expect((await call("GET", "/apps/default/policies/p")).body.description).toBe("default's");
  });
});
