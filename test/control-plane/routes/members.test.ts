// People, what they may do, and their tokens.

import { describe, expect, it } from "vitest";
import { onePerSecond, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

const books = "/apps/shop/policies/books";

async function start(): Promise<Running> {
  const running = await startControlPlane();
  for (const app of ["shop", "bank"]) await running.call("PUT", `/apps/${app}`, { body: { realm: {} } });
  return running;
}

/** Adds a member, and makes a token of theirs. */
async function add({ call }: Running, name: string, body: object = {}): Promise<string> {
  expect((await call("POST", "/members", { body: { name, ...body } })).status).toBe(201);
  const made = await call("POST", "/tokens", { body: { name: "laptop", member: name } });
  expect(made.status).toBe(201);
  expect(made.body.token).toMatch(/^sluice_mbr_/);
  return made.body.token;
}

describe("a member", () => {
  it("may do in each app what their role there says, and the history has their name", async () => {
    const running = await start();
    const token = await add(running, "ann", { roles: { shop: "editor", bank: "viewer" } });
    const put = await running.call("PUT", books, { token, body: onePerSecond });
    expect(put.status).toBe(201);
    expect((await running.call("GET", "/revisions")).body.revisions[0]).toMatchObject({ who: "ann", app: "shop" });
    expect((await running.call("GET", "/apps/shop/policies")).body.policies[0].owner).toBe("ann");
    expect((await running.call("GET", "/apps/bank", { token })).status).toBe(200);
    const refused = await running.call("PUT", "/apps/bank/policies/x", { token, body: onePerSecond });
    expect([refused.status, refused.body.code]).toEqual([403, "forbidden"]);
    const { apps } = (await running.call("GET", "/apps", { token })).body;
    expect(apps.map(({ name }: { name: string }) => name)).toEqual(["bank", "shop"]);
    expect((await running.call("GET", "/apps/default", { token })).status).toBe(403);
  });

  it("has other rights from the next request on when their roles change", async () => {
    const running = await start();
    const token = await add(running, "ann", { roles: { shop: "viewer" } });
    const write = async () => (await running.call("PUT", books, { token, body: onePerSecond })).status;
    expect(await write()).toBe(403);
    await running.call("PATCH", "/members/ann", { body: { roles: { shop: "editor" } } });
    expect(await write()).toBe(201);
    await running.call("PATCH", "/members/ann", { body: { roles: { shop: "none" } } });
    expect(await write()).toBe(403);
    await running.call("PATCH", "/members/ann", { body: { admin: true } });
    expect((await running.call("PUT", "/apps/new", { token })).status).toBe(201);
  });

  it("who is disabled is refused at once, and may come back", async () => {
    const running = await start();
    const token = await add(running, "ann", { roles: { shop: "editor" } });
    const status = async () => (await running.call("GET", "/apps/shop", { token })).status;
    expect(await status()).toBe(200);
    const { body } = await running.call("PATCH", "/members/ann", { body: { disabled: true } });
    expect(body).toMatchObject({ name: "ann", disabled: true });
    expect(await status()).toBe(401);
    await running.call("PATCH", "/members/ann", { body: { disabled: false } });
    expect(await status()).toBe(200);
    expect((await running.call("DELETE", "/members/ann")).status).toBe(200);
    expect(await status()).toBe(401);
    expect((await running.call("GET", "/members/ann")).body.code).toBe("member-not-found");
  });

  it("makes, lists and deletes their own tokens, and nobody else does but admins", async () => {
    const running = await start();
    const ann = await add(running, "ann", { roles: { shop: "viewer" } });
    const bob = await add(running, "bob", { roles: { shop: "owner" } });
    const made = await running.call("POST", "/tokens", { token: ann, body: { name: "phone", member: "ann" } });
    expect(made.status).toBe(201);
    const forged = await running.call("POST", "/tokens", { token: bob, body: { name: "x", member: "ann" } });
    expect([forged.status, forged.body.code]).toEqual([403, "forbidden"]);
    const namesOf = async (token: string) =>
      (await running.call("GET", "/tokens", { token })).body.tokens.map(({ name }: { name: string }) => name);
    expect(await namesOf(ann)).toEqual(["laptop", "phone"]);
    expect(await namesOf(bob)).toEqual(["laptop"]);
    expect((await running.call("DELETE", `/tokens/${made.body.id}`, { token: bob })).body.code).toBe("token-not-found");
    expect((await running.call("DELETE", `/tokens/${made.body.id}`, { token: ann })).status).toBe(200);
    expect((await running.call("GET", "/apps/shop", { token: made.body.token })).status).toBe(401);
  });

  it("has 50 tokens at most", async () => {
    const running = await start();
    await add(running, "ann");
    const statuses: number[] = [];
    for (let i = 0; i < 50; i++) {
      statuses.push((await running.call("POST", "/tokens", { body: { name: `t${i}`, member: "ann" } })).status);
    }
    expect(statuses.slice(-2)).toEqual([201, 409]);
  });
});

describe("an owner", () => {
  it("manages the members and tokens of their app, and of no other", async () => {
    const running = await start();
    const token = await add(running, "ann", { roles: { shop: "owner", bank: "editor" } });
    const statusOf = async (method: string, path: string, body?: object) =>
      (await running.call(method, path, { token, ...(body === undefined ? {} : { body }) })).status;
    expect(await statusOf("POST", "/members", { name: "bob", roles: { shop: "editor" } })).toBe(201);
    expect(await statusOf("POST", "/members", { name: "eve", roles: { bank: "viewer" } })).toBe(403);
    expect(await statusOf("POST", "/members", { name: "eve" })).toBe(400);
    expect(await statusOf("PATCH", "/members/bob", { roles: { shop: "owner" } })).toBe(200);
    expect(await statusOf("PATCH", "/members/bob", { roles: { bank: "viewer" } })).toBe(403);
    expect(await statusOf("PATCH", "/members/bob", { admin: true })).toBe(403);
    expect(await statusOf("PATCH", "/members/ann", { disabled: true })).toBe(403);
    expect(await statusOf("DELETE", "/members/bob")).toBe(403);
    expect(await statusOf("POST", "/tokens", { name: "ci", app: "shop", role: "editor" })).toBe(201);
    expect(await statusOf("POST", "/tokens", { name: "ci", app: "bank", role: "viewer" })).toBe(403);
  });

  it("sees the members of their app, without their roles in others", async () => {
    const running = await start();
    const token = await add(running, "ann", { roles: { shop: "owner" } });
    await add(running, "bob", { roles: { shop: "viewer", bank: "owner" } });
    await add(running, "eve", { roles: { bank: "viewer" } });
    const { members } = (await running.call("GET", "/members", { token })).body;
    expect(members.map(({ name, roles }: { name: string; roles: object }) => [name, roles])).toEqual([
      ["ann", { shop: "owner" }],
      ["bob", { shop: "viewer" }],
    ]);
    expect((await running.call("GET", "/members/eve", { token })).body.code).toBe("member-not-found");
    expect((await running.call("GET", "/members")).body.members).toHaveLength(3);
  });

  it("learns nothing of somebody outside of their app by a change that changes nothing", async () => {
    const running = await start();
    const token = await add(running, "ann", { roles: { shop: "owner" } });
    await add(running, "eve", { roles: { bank: "viewer" }, admin: true });
    await add(running, "bob", { roles: { shop: "viewer" } });
    for (const body of [{}, { roles: {} }, { roles: { shop: "none" } }]) {
      expect((await running.call("PATCH", "/members/eve", { token, body })).body.code).toBe("member-not-found");
      expect((await running.call("PATCH", "/members/bob", { token, body })).status).toBe(200);
    }
  });

  it("learns nothing of somebody outside of their app by a dry run, which leaves no trace", async () => {
    const running = await start();
    const token = await add(running, "ann", { roles: { shop: "owner" } });
    await add(running, "eve", { roles: { bank: "viewer" }, admin: true });
    await add(running, "bob", { roles: { shop: "viewer" } });
    const tryOut = (name: string, as?: string) =>
      running.call("PATCH", `/members/${name}?dryRun=true`, {
        body: { roles: { shop: "editor" } },
        ...(as === undefined ? {} : { token: as }),
      });
    const hidden = await tryOut("eve", token);
    const none = await tryOut("nobody", token);
    expect([hidden.status, hidden.body.code]).toEqual([none.status, none.body.code]);
    expect(hidden.body.code).toBe("member-not-found");
    expect((await tryOut("bob", token)).body).toMatchObject({ roles: { shop: "editor" }, dryRun: true });
    expect((await tryOut("eve")).body).toMatchObject({ admin: true, dryRun: true });
  });

  it.each(["if-match", "if-none-match"])(
    "learns nothing of somebody outside of their app by %s, which leaves no trace",
    async (header) => {
      const running = await start();
      const token = await add(running, "ann", { roles: { shop: "owner" } });
      await add(running, "eve", { roles: { bank: "viewer" } });
      const answerOf = async (name: string, version: string) => {
        const asked = { token, body: { roles: { shop: "viewer" } }, headers: { [header]: version } };
        const { status, body, headers } = await running.call("PATCH", `/members/${name}`, asked);
        return [status, body.code, headers.get("etag")];
      };
      for (const version of ['"0"', '"1"', "*"]) {
        expect([version, await answerOf("eve", version)]).toEqual([version, await answerOf("nobody", version)]);
      }
      expect(await answerOf("eve", "*")).toEqual([404, "member-not-found", null]);
    },
  );

  it("of an app with the name of a prototype's field sees its members alone", async () => {
    const running = await start();
    await running.call("PUT", "/apps/constructor", { body: { realm: {} } });
    const token = await add(running, "ann", { roles: { constructor: "owner" } });
    await add(running, "eve", { roles: { bank: "viewer" } });
    expect((await running.call("GET", "/members/eve", { token })).status).toBe(404);
    await running.call("PATCH", "/members/eve", { token, body: { roles: { constructor: "viewer" } } });
    const { entries } = (await running.call("GET", "/audit?subject=eve&action=update-member")).body;
    expect(entries).toMatchObject([{ app: "constructor", after: { role: "viewer" } }]);
    expect(entries[0]).not.toHaveProperty("before");
  });
});

describe("a change of a member", () => {
  it("is in the audit trail of the apps that it concerns", async () => {
    const running = await start();
    await add(running, "ann", { roles: { shop: "viewer" } });
    await running.call("PATCH", "/members/ann", { body: { roles: { bank: "owner" }, disabled: true } });
    await running.call("DELETE", "/members/ann");
    const { entries } = (await running.call("GET", "/audit?subject=ann")).body;
    const said = entries
      .map(({ action, app, before, after }: Record<string, unknown>) => [action, app, before, after])
      .sort();
    expect(said).toEqual(
      [
        ["create-member", undefined, undefined, { admin: false, disabled: false }],
        ["create-member", "shop", undefined, { role: "viewer" }],
        ["update-member", undefined, { admin: false, disabled: false }, { admin: false, disabled: true }],
        ["update-member", "bank", undefined, { role: "owner" }],
        ["delete-member", undefined, { admin: false, disabled: true }, undefined],
        ["delete-member", "bank", { role: "owner" }, undefined],
        ["delete-member", "shop", { role: "viewer" }, undefined],
      ].sort(),
    );
  });

  it("that changes nothing is no new version, and leaves no entry", async () => {
    const running = await start();
    await add(running, "ann", { roles: { shop: "viewer" } });
    const entries = async () => (await running.call("GET", "/audit?subject=ann")).body.entries;
    const [before, read] = [await entries(), await running.call("GET", "/members/ann")];
    for (const body of [
      {},
      { roles: {} },
      { roles: { shop: "viewer", bank: "none" }, admin: false, disabled: false },
    ]) {
      const { status, headers } = await running.call("PATCH", "/members/ann", { body });
      expect([status, headers.get("etag")]).toEqual([200, read.headers.get("etag")]);
    }
    expect(await entries()).toEqual(before);
  });

  it("or of an app that ends tokens and roles leaves an entry for each", async () => {
    const running = await start();
    await add(running, "ann", { roles: { shop: "viewer", bank: "owner" } });
    await running.call("POST", "/tokens?wait=0s", { body: { name: "till", app: "shop", role: "caller" } });
    expect((await running.call("DELETE", "/apps/shop")).status).toBe(200);
    expect((await running.call("DELETE", "/members/ann")).status).toBe(200);
    const { entries } = (await running.call("GET", "/audit?limit=8")).body;
    const said = entries.map(({ action, app, subject, before }: Record<string, unknown>) => [
      action,
      app,
      subject,
      before,
    ]);
    for (const entry of [
      ["delete-token", "shop", "till", expect.objectContaining({ name: "till", role: "caller" })],
      ["update-member", "shop", "ann", { role: "viewer" }],
      ["delete-app", "shop", undefined, { realm: {} }],
      ["delete-token", undefined, "laptop", expect.objectContaining({ name: "laptop", member: "ann" })],
      ["delete-member", "bank", "ann", { role: "owner" }],
    ]) {
      expect(said).toContainEqual(entry);
    }
  });

  it("honours If-Match, and a dry run changes nothing", async () => {
    const running = await start();
    await add(running, "ann", { roles: { shop: "viewer" } });
    const read = await running.call("GET", "/members/ann");
    const headers = { "if-match": read.headers.get("etag") ?? "" };
    const body = { roles: { shop: "editor" } };
    const dry = await running.call("PATCH", "/members/ann?dryRun=true", { headers, body });
    expect(dry.body).toMatchObject({ dryRun: true, roles: { shop: "editor" } });
    expect((await running.call("GET", "/members/ann")).body).toEqual(read.body);
    expect((await running.call("PATCH", "/members/ann", { headers, body })).status).toBe(200);
    expect((await running.call("PATCH", "/members/ann", { headers, body })).status).toBe(412);
  });

  it("is another version after an app was deleted in which the member had a role, and for another member of the name", async () => {
    const running = await start();
    const versionOfAnn = async () => (await running.call("GET", "/members/ann")).headers.get("etag") ?? "";
    await add(running, "ann", { roles: { shop: "viewer", bank: "owner" } });
    const versions = [await versionOfAnn()];
    expect((await running.call("DELETE", "/apps/shop")).status).toBe(200);
    versions.push(await versionOfAnn());
    expect((await running.call("DELETE", "/members/ann")).status).toBe(200);
    await add(running, "ann", {});
    versions.push(await versionOfAnn());
    expect(new Set(versions).size).toBe(3);
    const headers = { "if-match": versions[0] as string };
    expect((await running.call("PATCH", "/members/ann", { headers, body: { admin: true } })).status).toBe(412);
  });

  it.each([
    [{ name: "Ann" }, "name"],
    [{ name: "ann", roles: { shop: "admin" } }, "roles.shop"],
    [{ name: "ann", admin: "yes" }, "admin"],
    [{ name: "ann", roles: { none: "viewer" } }, undefined],
    [{}, "name"],
  ])("that is wrong (%j) is refused with its place", async (body, path) => {
    const running = await start();
    const answer = await running.call("POST", "/members", { body });
    expect([400, 404]).toContain(answer.status);
    expect(answer.body.errors?.[0].path).toBe(path);
    expect((await running.call("GET", "/members")).body.members).toEqual([]);
  });
});

it("nobody is a member under the name of an admin's token, or of nobody", async () => {
  const running = await start();
  for (const name of ["environment", "first-admin", "unknown"]) {
    const answer = await running.call("POST", "/members", { body: { name, roles: { shop: "viewer" } } });
    expect([answer.status, answer.body.code]).toEqual([409, "member-exists"]);
  }
});

it("the owners of an app add at most a thousand members, by whatever tokens, and an admin more", async () => {
  const running = await start();
  const olga = await add(running, "olga", { roles: { shop: "owner", bank: "owner" } });
  const service = async (name: string) =>
    (await running.call("POST", "/tokens", { body: { name, app: "shop", role: "owner" } })).body.token as string;
  const [made] = await running.app.database.selectFrom("members").selectAll().where("name", "=", "olga").execute();
  const rows = Array.from({ length: 999 }, (_, i) => ({ ...made, name: `m${i}`, added_in: "shop" }));
  for (let i = 0; i < rows.length; i += 100) {
    await running.app.database
      .insertInto("members")
      .values(rows.slice(i, i + 100) as never)
      .execute();
  }
  const post = (name: string, token?: string, app = "shop") =>
    running.call("POST", "/members", {
      body: { name, roles: { [app]: "viewer" } },
      ...(token === undefined ? {} : { token }),
    });
  expect((await post("last", await service("one"))).status).toBe(201);
  for (const token of [await service("one"), await service("another-name"), olga]) {
    const refused = await post("further", token);
    expect([refused.status, refused.body.code]).toEqual([409, "too-many-members"]);
    expect(refused.body.detail).toContain('Owners of the app "shop" have added 1000 members');
  }
  expect((await post("further", olga, "bank")).status).toBe(201);
  expect((await post("more")).status).toBe(201);
  // They count for no later app of the same name.
  expect((await running.call("DELETE", "/apps/shop")).status).toBe(200);
  await running.call("PUT", "/apps/shop", { body: {} });
  expect((await post("newcomer", await service("of-the-new-app"))).status).toBe(201);
});

it("a member whom an owner adds leaves nothing in the audit trail but in the app of the owner", async () => {
  const running = await start();
  const { token } = (await running.call("POST", "/tokens", { body: { name: "o", app: "shop", role: "owner" } })).body;
  const body = { name: "bob", roles: { shop: "viewer" } };
  expect((await running.call("POST", "/members", { token, body })).status).toBe(201);
  const { entries } = (await running.call("GET", "/audit")).body;
  const left = entries.filter(({ action }: { action: string }) => action === "create-member");
  expect(left).toMatchObject([{ app: "shop", subject: "bob", who: "shop/o" }]);
});

it("a token says when it was last used, and who has it", async () => {
  const running = await start();
  const token = await add(running, "ann", { roles: { shop: "viewer" } });
  await running.call("GET", "/apps/shop", { token });
  await running.app.storeTokenUses();
  const { tokens } = (await running.call("GET", "/tokens")).body;
  const own = tokens.find(({ member }: { member?: string }) => member === "ann");
  expect(own).toMatchObject({ name: "laptop", member: "ann", role: "member" });
  expect(Date.parse(own.lastUsedAt)).toBeGreaterThan(Date.now() - 10_000);
});
