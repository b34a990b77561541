import { once } from "node:events";
import { request } from "node:http";
import { describe, expect, it } from "vitest";
import { loadSnapshot } from "../../fixtures/documents/loaded-state.ts";
import { adminToken, onePerSecond, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";

const office = "/apps/default/networks/office";
const text = (lines: string) => ({ text: lines, type: "text/plain" });

describe("a list of networks", () => {
  it("is stored as it is meant, shown with its version, listed by name and deleted", async () => {
    const { call } = await startControlPlane();
    const put = await call(
      "PUT",
      office,
      text("# ours\n10.1.2.3/8 ; the house\r\n\n2001:DB8::1\n10.0.0.0/8\n192.0.2.7\n"),
    );
    expect([put.status, put.body, put.headers.get("etag")]).toEqual([201, { revision: 1 }, '"1"']);
    await call("PUT", "/apps/default/networks/crawlers", text(""));
    const networks = ["10.0.0.0/8", "192.0.2.7/32", "2001:db8::1/128"];
    const summary = { name: "office", etag: '"1"', revision: 1, count: 3, bytes: 2 * 16 + 64 };
    const get = await call("GET", office);
    expect([get.body, get.headers.get("etag")]).toMatchObject([{ ...summary, networks }, '"1"']);
    expect((await call("GET", office, { headers: { "if-none-match": '"1"' } })).status).toBe(304);
    const page = (await call("GET", "/apps/default/networks")).body;
    expect(page).toMatchObject({ lists: [{ name: "crawlers", count: 0, bytes: 0 }, summary] });
    expect(page.lists[1].networks).toBeUndefined();
    const { used, bounds } = (await call("GET", "/apps/default")).body;
    expect([used.networkLists, used.networkBytes, bounds.networkBytes]).toEqual([2, 96, 8_388_608]);
    expect((await call("DELETE", office)).body).toEqual({ revision: 3 });
    for (const method of ["GET", "DELETE"]) expect((await call(method, office)).body.code).toBe("networks-not-found");
    expect((await call("GET", "/apps/default")).body.used.networkBytes).toBe(0);
    const summaries = (await call("GET", "/revisions")).body.revisions.map((one: { summary: string }) => one.summary);
    expect(summaries[0]).toBe("deleted list of networks default/office");
  });

  it("changes nothing if it has the same networks, honours If-Match, and shows what a dry run would change", async () => {
    const { call } = await startControlPlane();
    await call("PUT", office, text("10.0.0.0/8"));
    const same = await call("PUT", office, text("10.9.9.9/8\n"));
    expect([same.status, same.body]).toEqual([200, { revision: 1 }]);
    const late = await call("PUT", office, { ...text("192.0.2.0/24"), headers: { "if-match": '"7"' } });
    expect([late.status, late.body.etag]).toEqual([412, '"1"']);
    expect((await call("DELETE", office, { headers: { "if-match": '"7"' } })).status).toBe(412);
    const dry = (await call("PUT", `${office}?dryRun=true`, text("192.0.2.0/24"))).body;
    expect(dry).toMatchObject({ dryRun: true, changes: [{ kind: "networks", name: "office", change: "updated" }] });
    expect((await call("GET", office)).body.networks).toEqual(["10.0.0.0/8"]);
  });

  it("tells the history how many networks came and went, and which if they are few", async () => {
    const { call } = await startControlPlane();
    await call("PUT", office, text("10.0.0.0/8\n192.0.2.0/24"));
    await call("PUT", office, text("192.0.2.0/24\n198.51.100.0/24"));
    const { before, after } = (await call("GET", "/revisions/2")).body;
    expect(before).toEqual({ count: 2, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(after).toMatchObject({
      count: 2,
      added: 1,
      removed: 1,
      addedNetworks: ["198.51.100.0/24"],
      removedNetworks: ["10.0.0.0/8"],
    });
    const many = Array.from({ length: 5_000 }, (_, i) => `10.${i >> 8}.${i % 256}.0/24`).join("\n");
    await call("PUT", office, text(many));
    const last = (await call("GET", "/revisions/3")).body.after;
    expect(last).toEqual({
      count: 5_000,
      sha256: expect.any(String),
      added: 5_000,
      removed: 2,
      removedNetworks: expect.any(Array),
    });
  });

  it("names each line that is no network, and stores nothing then", async () => {
    const { call } = await startControlPlane();
    const lines = ["10.0.0.0/8", "", "# comment", "10.0.0.0/33", "office", '["192.0.2.0/24"]', "x".repeat(5_000)].join(
      "\n",
    );
    const { status, body } = await call("PUT", office, text(lines));
    expect([status, body.code]).toEqual([400, "invalid-networks"]);
    expect(body.errors.map((one: { line: number; got: string }) => [one.line, one.got.slice(0, 20)])).toEqual([
      [4, '"10.0.0.0/33"'],
      [5, '"office"'],
      [6, '"["192.0.2.0/24"]"'],
      [7, `"${"x".repeat(19)}`],
    ]);
    expect((await call("GET", office)).status).toBe(404);
  });

  it("has a hundred thousand networks at most, and a body of 8 MiB", async () => {
    const { call } = await startControlPlane();
    const networks = (count: number) =>
      Array.from({ length: count }, (_, i) => `10.${i >> 16}.${(i >> 8) % 256}.${i % 256}`).join("\n");
    const most = await call("PUT", office, text(networks(100_000)));
    expect([most.status, (await call("GET", office)).body.count]).toEqual([201, 100_000]);
    const more = await call("PUT", office, text(networks(100_001)));
    expect([more.status, more.body.errors]).toEqual([
      400,
      [{ path: "", expected: "at most 100000 networks", got: "more" }],
    ]);
    const large = await call("PUT", office, text(`# ${"x".repeat(8 * 1024 * 1024)}`));
    expect([large.status, large.body.code]).toEqual([413, "body-too-large"]);
    const json = await call("PUT", office, { body: ["10.0.0.0/8"] });
    expect([json.status, json.body.detail]).toEqual([
      415,
      'Content-Type: expected text/plain, got "application/json".',
    ]);
    expect((await call("PUT", "/apps/default/networks/Office", text(""))).body.errors[0].path).toBe("name");
  });

  it("takes no more of a gateway's memory than its app may have", async () => {
    const { call } = await startControlPlane();
    await call("PUT", "/apps/shop", { body: { bounds: { networkLists: 1, networkBytes: 32 } } });
    const own = "/apps/shop/networks";
    expect((await call("PUT", `${own}/one`, text("10.0.0.0/8\n11.0.0.0/8"))).status).toBe(201);
    const bytes = await call("PUT", `${own}/one`, text("10.0.0.0/8\n11.0.0.0/8\n12.0.0.0/8"));
    expect([bytes.status, bytes.body.errors[0].path]).toEqual([409, "bounds.networkBytes"]);
    expect((await call("PUT", `${own}/two`, text(""))).body.errors[0].path).toBe("bounds.networkLists");
    expect((await call("DELETE", "/apps/shop")).body.code).toBe("app-not-empty");
  });

  it("is not replaced by an empty one, unless that is meant: a feed that failed is an empty file", async () => {
    const { call } = await startControlPlane();
    const office = "/apps/default/networks/office";
    await call("PUT", office, text("10.0.0.0/8"));
    const refused = await call("PUT", office, text("# nothing today"));
    expect([refused.status, refused.body.code, refused.body.errors]).toEqual([
      400,
      "invalid-networks",
      [{ path: "", expected: "one network or more", got: "none" }],
    ]);
    expect((await call("GET", office)).body.networks).toEqual(["10.0.0.0/8"]);
    expect((await call("PUT", `${office}?allowEmpty=true`, text(""))).status).toBe(200);
    expect((await call("GET", office)).body.networks).toEqual([]);
  });

  it("is not deleted while a policy, an app or a ban refers to it", async () => {
    const { call } = await startControlPlane();
    await call("PUT", "/apps/shop", {});
    await call("PUT", office, text("10.0.0.0/8"));
    const refused = async () => (await call("DELETE", office)).body;
    await call("PUT", "/apps/shop/policies/books", { body: { ...onePerSecond, exempt: { cidrs: ["@office"] } } });
    expect(await refused()).toMatchObject({ code: "networks-in-use", policies: ["books"] });
    // A list of its own with this name is what the policy refers to then.
    await call("PUT", "/apps/shop/networks/office", text(""));
    expect((await call("DELETE", "/apps/shop/networks/office")).body.code).toBe("networks-in-use");
    await call("PUT", "/apps/shop/policies/books", { body: { ...onePerSecond, description: 'not "@office"' } });
    await call("DELETE", "/apps/shop/networks/office");
    await call("PUT", "/apps/shop", { body: { exempt: { cidrs: ["@office"] } } });
    expect((await refused()).detail).toBe('The list "office" is used by the exemptions of app "shop".');
    await call("PUT", "/apps/shop", { body: { exempt: null } });
    const ban = (await call("POST", "/apps/shop/bans", { body: { cidr: "@office", for: "1h" } })).body;
    expect(ban.cidr).toBe("@office");
    expect((await refused()).detail).toContain(`the ban "${ban.id}" of app "shop"`);
    await call("DELETE", `/apps/shop/bans/${ban.id}`);
    expect((await call("DELETE", office)).status).toBe(200);
  });

  it("that is not there is warned of in a policy and an app, and refused in a ban", async () => {
    const { call } = await startControlPlane();
    const cidrs = ["10.0.0.0/8", "@office"];
    const warning = {
      path: "exempt.cidrs[1]",
      expected: '"@" and the name of a list of networks of app default',
      got: '"@office", which exempts nobody',
    };
    const policy = await call("PUT", "/apps/default/policies/books", { body: { ...onePerSecond, exempt: { cidrs } } });
    expect([policy.status, policy.body.warnings]).toEqual([201, [warning]]);
    const app = await call("PUT", "/apps/shop", { body: { exempt: { cidrs } } });
    expect(app.body.warnings).toEqual([
      { ...warning, expected: `${warning.expected.replace("default", "shop")} or of app default` },
    ]);
    const ban = await call("POST", "/apps/default/bans", { body: { cidr: "@office", for: "1h" } });
    expect([ban.status, ban.body.errors]).toEqual([
      400,
      [{ path: "cidr", expected: warning.expected, got: '"@office"' }],
    ]);
    const wrong = await call("PUT", "/apps/default/policies/b", {
      body: { ...onePerSecond, exempt: { cidrs: ["@Office"] } },
    });
    expect([wrong.status, wrong.body.errors[0].path]).toEqual([400, "exempt.cidrs[0]"]);
  });
});

describe("gateways", () => {
  it("get a list with the snapshot, and later the blocks that changed", async () => {
    const plane = await startControlPlane();
    const { call } = plane;
    const networks = Array.from({ length: 20_000 }, (_, i) => `10.${i >> 8}.${i % 256}.0/28`);
    await call("PUT", office, text(networks.join("\n")));
    const gateway = await connectGateway(plane, "g1", { epoch: "", revision: 0, protocol: 3 });
    const snapshot = await gateway.next("snapshot");
    expect(snapshot.networks?.length).toBeGreaterThan(30);
    expect(loadSnapshot(snapshot).snapshot).toBeDefined();
    gateway.apply(snapshot);
    await call("PUT", office, text([...networks, "192.0.2.0/24"].join("\n")));
    const delta = await gateway.next("delta");
    expect(delta.networks).toHaveLength(1);
    gateway.apply(delta);
    await call("DELETE", office);
    const last = await gateway.next("delta");
    expect(last.gone.length).toBeGreaterThanOrEqual(snapshot.networks?.length ?? 0);
    expect(last.gone[0]).toMatchObject({ app: "default", networks: "office" });
  });
});

it("lists that never end keep nobody from storing one, of the same app neither", async () => {
  const { url, call } = await startControlPlane();
  await call("PUT", "/apps/shop", { body: { realm: {} } });
  await call("PUT", "/apps/crm", { body: { realm: {} } });
  const headers = { authorization: `Bearer ${adminToken}`, "content-type": "text/plain" };
  const answered: unknown[] = [];
  for (const list of ["default/networks/one", "default/networks/two", "shop/networks/one"]) {
    const endless = request(`${url}/api/v1/apps/${list}`, { method: "PUT", headers })
      .on("error", () => {})
      .on("response", ({ statusCode }) => answered.push(statusCode));
    // The control plane's stop waits for it.
    onFinished(() => void endless.destroy());
    endless.write("10.0.0.0/8\n");
    await once(endless, "socket");
  }
  for (const app of ["crm", "shop", "default"]) {
    expect((await call("PUT", `/apps/${app}/networks/office`, text("192.0.2.0/24"))).status).toBe(201);
  }
  expect(answered).toEqual([]);
});
