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
      { path: "owner", expected: "no such field; known here: realm, bounds", got: '"me"' },
    ]);
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
