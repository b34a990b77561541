// What changed can be read, compared and undone, and a change can be tried without being made.

import { applyPatch } from "rfc6902";
import { describe, expect, it } from "vitest";
import { perSecond, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { until } from "../../fixtures/until.ts";

const books = "/apps/shop/policies/books";

/** An app with three revisions of a policy: 2 to 4. */
async function start(environment: Record<string, string> = {}): Promise<Running> {
  const running = await startControlPlane(environment);
  await running.call("PUT", "/apps/shop", { body: { realm: {} } });
  for (const quota of [1, 2, 3]) await running.call("PUT", books, { body: perSecond(quota) });
  return running;
}

async function tokenFor({ call }: Running, role: string, app: string): Promise<string> {
  return (await call("POST", "/tokens", { body: { name: role, app, role } })).body.token;
}

const quotaOf = async ({ call }: Running) => (await call("GET", books)).body.limits?.[0].quota;

describe("a revision", () => {
  it("shows who changed what, when and from where, with both documents", async () => {
    const { call } = await start();
    const { status, body } = await call("GET", "/revisions/3");
    expect(status).toBe(200);
    expect(body).toMatchObject({ n: 3, who: "environment", from: "127.0.0.1", action: "update-policy", app: "shop" });
    expect(body.before.limits[0].quota).toBe(1);
    expect(body.after.limits[0].quota).toBe(2);
    expect((await call("GET", "/revisions/2")).body.before).toBeNull();
  });

  it("that there is not, or that is of another app, is not found", async () => {
    const running = await start();
    const stranger = await tokenFor(running, "owner", "default");
    for (const [path, token] of [
      ["/revisions/99", undefined],
      ["/revisions/0", undefined],
      ["/revisions/3", stranger],
    ] as const) {
      const answer = await running.call("GET", path, token === undefined ? {} : { token });
      expect([path, answer.status, answer.body.code]).toEqual([path, 404, "revision-not-found"]);
    }
    expect((await running.call("GET", "/revisions/x")).body.code).toBe("invalid-request");
  });
});

describe("a diff", () => {
  it("is a JSON Patch that makes one document of the other, and a text", async () => {
    const { call } = await start();
    const before = (await call("GET", "/revisions/2")).body.after;
    const { body } = await call("GET", "/revisions/2/diff/4");
    expect(body).toMatchObject({ from: 2, to: 4 });
    expect(body.changes).toHaveLength(1);
    const [change] = body.changes;
    expect(change).toMatchObject({ kind: "policy", app: "shop", name: "books", change: "updated" });
    applyPatch(before, change.patch);
    expect(before).toEqual((await call("GET", books)).body);
    expect(change.text).toContain("-    quota: 1\n+    quota: 3\n");
  });

  it("shows what was created and deleted, and the other way round in the other direction", async () => {
    const { call } = await start();
    await call("DELETE", books);
    await call("PUT", "/apps/shop/templates/polite", { body: { onLimit: { status: 503 } } });
    const forward = (await call("GET", "/revisions/4/diff/6")).body.changes;
    expect(forward).toMatchObject([
      { kind: "policy", name: "books", change: "deleted", patch: [{ op: "remove", path: "" }] },
      { kind: "template", name: "polite", change: "created" },
    ]);
    const back = (await call("GET", "/revisions/6/diff/4")).body.changes;
    expect(back).toMatchObject([
      { kind: "policy", name: "books", change: "created" },
      { kind: "template", name: "polite", change: "deleted" },
    ]);
    // What came and went in between is no difference.
    expect((await call("GET", "/revisions/1/diff/5?policy=books")).body.changes).toEqual([]);
  });

  it("shows no documents of apps that the reader may not read", async () => {
    const running = await start();
    const stranger = await tokenFor(running, "viewer", "default");
    expect((await running.call("GET", "/revisions/1/diff/4", { token: stranger })).body.changes).toEqual([]);
  });

  it("to a revision that is not there yet, or from one that is not kept any more, says so", async () => {
    const running = await start({ SLUICE_HISTORY_BYTES: "600" });
    expect((await running.call("GET", "/revisions/1/diff/9")).body.code).toBe("revision-not-found");
    await running.app.deleteOutdated();
    const answer = await running.call("GET", "/revisions/2/diff/4");
    expect([answer.status, answer.body.code]).toEqual([404, "revision-not-found"]);
    expect(answer.body.detail).toBe(
      "Some of the revisions from 3 to 3 are not kept any more (SLUICE_HISTORY_DAYS, SLUICE_HISTORY_BYTES).",
    );
    expect((await running.call("GET", "/revisions/3/diff/4")).body.changes).toHaveLength(1);
  });

  it("and a roll-back do not need the entries of other apps, which may not be kept any more", async () => {
    const running = await start({ SLUICE_HISTORY_BYTES: "1000" });
    const { call } = running;
    for (let i = 1; i <= 9; i++) await call("PUT", "/apps/default/policies/busy", { body: perSecond(i) });
    await call("PUT", books, { body: perSecond(9) });
    await running.app.deleteOutdated();
    expect((await call("GET", "/revisions/3/diff/14")).status).toBe(404);
    const { body } = await call("GET", "/revisions/3/diff/14?app=shop");
    expect(body.changes).toMatchObject([{ app: "shop", name: "books", change: "updated" }]);
    const back = await call("POST", "/revisions/3/rollback", { body: { app: "shop" } });
    expect([back.status, await quotaOf(running)]).toEqual([200, 2]);
  });

  it("has the first and the last of thousands of entries, of those that were rolled back too", async () => {
    const running = await start();
    const { database } = running.app;
    await running.call("POST", "/revisions/2/rollback", { body: { app: "shop" } });
    const entry = { at: 5, who: "ann", source: null, action: "update-policy", app: "default", subject: null };
    const document = (i: number) => JSON.stringify(perSecond(i));
    const rows = Array.from({ length: 2_500 }, (_, i) => ({
      ...entry,
      number: 6 + i,
      policy: `p${i % 7}`,
      before: document(i),
      after: document(i + 7),
    }));
    for (let at = 0; at < rows.length; at += 500) {
      const values = rows.slice(at, at + 500);
      await database.insertInto("revisions").values(values).execute();
    }
    await database.updateTable("meta").set({ revision: 2_505 }).execute();
    const { changes } = (await running.call("GET", "/revisions/4/diff/2505")).body;
    expect(changes.map(({ name }: { name: string }) => name)).toEqual([
      ...rows.slice(0, 7).map(({ policy }) => policy),
      "books",
    ]);
    expect(changes[0].patch).toEqual([{ op: "replace", path: "/limits/0/quota", value: 2_506 }]);
    expect(changes[7].patch).toEqual([{ op: "replace", path: "/limits/0/quota", value: 1 }]);
  });

  it("of any two revisions has what differs, however policies were made, deleted and brought back in between", async () => {
    const running = await start();
    const { call } = running;
    const names = ["books", "films", "songs"];
    const several = (chosen: readonly string[], quota: number) =>
      chosen.map((name) => JSON.stringify({ ...perSecond(quota), name })).join("\n");
    const putSeveral = (chosen: readonly string[], quota: number) =>
      call("PUT", "/apps/shop/policies?prune=true", { text: several(chosen, quota), type: "application/jsonl" });
    const read = async () => {
      const { policies } = (await call("GET", "/apps/shop/policies")).body;
      const quotas: [string, number][] = [];
      for (const { name, document } of policies) quotas.push([name, document.limits[0].quota]);
      return new Map(quotas);
    };
    const states: [number, Map<string, number>][] = [];
    const note = async () => states.push([(await call("GET", "/revisions")).body.revisions[0].n, await read()]);
    await putSeveral(names, 1);
    await note();
    let random = 1;
    const below = (count: number) => {
      random = (random * 48_271) % 2_147_483_647;
      return random % count;
    };
    for (let i = 0; i < 40; i++) {
      const name = names[below(3)];
      const kind = below(4);
      if (kind === 0) await call("PUT", `/apps/shop/policies/${name}`, { body: { ...perSecond(1 + below(3)), name } });
      else if (kind === 1) await call("DELETE", `/apps/shop/policies/${name}`);
      else if (kind === 2) await putSeveral(names.filter(() => below(2) === 0).concat("always"), 1 + below(3));
      else await call("POST", `/revisions/${states[below(states.length)]?.[0]}/rollback`, { body: { app: "shop" } });
      await note();
    }
    for (let i = 0; i < 60; i++) {
      const [from, to] = [states[below(states.length)], states[below(states.length)]] as const;
      if (from === undefined || to === undefined) throw new Error("expected states");
      const { changes } = (await call("GET", `/revisions/${from[0]}/diff/${to[0]}?app=shop`)).body;
      const expected = [...names, "always"].sort().flatMap((name) => {
        const [before, after] = [from[1].get(name), to[1].get(name)];
        if (before === after) return [];
        return [[name, before === undefined ? "created" : after === undefined ? "deleted" : "updated"]];
      });
      expect(changes.map((one: { name: string; change: string }) => [one.name, one.change])).toEqual(expected);
    }
  });

  it("and a roll-back take no step for each ban that was made and ended in between", async () => {
    const { app, call } = await start();
    const text = JSON.stringify({ cidr: "192.0.2.1/32" });
    const entry = { at: 5, who: "ann", source: null, app: "shop", policy: null };
    const rows = Array.from({ length: 3_000 }, (_, i) => {
      const isNew = i % 2 === 0;
      const documents = { before: isNew ? null : text, after: isNew ? text : null };
      const action = isNew ? "create-ban" : "delete-ban";
      return { ...entry, ...documents, number: 5 + i, action, subject: `ban-${i - (i % 2)}` };
    });
    for (let at = 0; at < rows.length; at += 500) {
      await app.database
        .insertInto("revisions")
        .values(rows.slice(at, at + 500))
        .execute();
    }
    await app.database.updateTable("meta").set({ revision: 3_004 }).execute();
    let pauses = 0;
    app.pausesOf = () => async () => {
      pauses += 1;
    };
    const diff = await call("GET", "/revisions/2/diff/3004?app=shop");
    const back = await call("POST", "/revisions/2/rollback", { body: { app: "shop" } });
    expect([diff, back].map(({ body }) => body.changes.length)).toEqual([1, 1]);
    expect(pauses).toBeLessThan(100);
  });

  it("has the newest thousand of bans that were made and not ended, and says how many more there are", async () => {
    const { app, call } = await start();
    const entry = { at: 5, who: "ann", source: null, action: "create-ban", app: "shop", policy: null, before: null };
    const rows = Array.from({ length: 1_100 }, (_, i) => {
      const after = JSON.stringify({ cidr: "192.0.2.1/32" });
      return { ...entry, number: 5 + i, subject: `ban-${String(i).padStart(4, "0")}`, after };
    });
    for (let at = 0; at < rows.length; at += 500) {
      await app.database
        .insertInto("revisions")
        .values(rows.slice(at, at + 500))
        .execute();
    }
    await app.database.updateTable("meta").set({ revision: 1_104 }).execute();
    const { body } = await call("GET", "/revisions/2/diff/1104?app=shop");
    const named = body.changes.map(({ kind, name }: { kind: string; name: string }) => `${kind} ${name}`);
    expect([named.length, named[0], named.at(-1), body.moreBans]).toEqual([1_001, "ban ban-0100", "policy books", 100]);
  });

  it("has no bans that went with their policy or their app, and those that were made for a policy of the same name", async () => {
    const running = await start();
    const { call } = running;
    const put = (policy: string) =>
      call("PUT", `/apps/shop/policies/${policy}`, { body: { ...perSecond(1), key: ["header:x-user"] } });
    const ban = async (app: string, banned: object) =>
      (await call("POST", `/apps/${app}/bans`, { body: { ...banned, for: "1h" } })).body.id as string;
    const of = (policy: string) => ban("shop", { policy, key: ["eve"] });
    const policies = ["deleted", "pruned", "rolled-back"];
    for (const policy of policies) await put(policy);
    for (const policy of policies) await of(policy);
    const network = await ban("shop", { cidr: "192.0.2.1/32" });
    await call("DELETE", "/apps/shop/policies/deleted");
    const text = ["books", "rolled-back"].map((name) => JSON.stringify({ ...perSecond(3), name })).join("\n");
    await call("PUT", "/apps/shop/policies?prune=true", { text, type: "application/jsonl" });
    await call("POST", "/revisions/4/rollback", { body: { app: "shop" } });
    await put("deleted");
    const again = await of("deleted");
    await call("PUT", "/apps/other", { body: { realm: {} } });
    await ban("other", { cidr: "192.0.2.1/32" });
    await call("DELETE", "/apps/other");
    const [newest] = (await call("GET", "/revisions")).body.revisions;
    const named = async (path: string) =>
      (await call("GET", path)).body.changes.map(({ kind, name }: { kind: string; name: string }) => [kind, name]);
    const expected = [network, again].map((id) => ["ban", id]);
    expect(await named(`/revisions/4/diff/${newest.n}`)).toEqual([...expected, ["policy", "deleted"]]);
  });
});

describe("a roll-back", () => {
  it("of a policy is a new revision with its document of then, and can be rolled back", async () => {
    const running = await start();
    const body = { app: "shop", policy: "books" };
    const answer = await running.call("POST", "/revisions/2/rollback", { body });
    expect(answer.body).toMatchObject({ revision: 5, changes: [{ name: "books", change: "updated" }] });
    expect(await quotaOf(running)).toBe(1);
    const [newest] = (await running.call("GET", "/revisions")).body.revisions;
    expect(newest).toMatchObject({ n: 5, action: "roll-back", app: "shop", policy: "books", subject: "to revision 2" });
    expect(newest.summary).toBe("rolled back shop/books to revision 2");
    await running.call("POST", "/revisions/4/rollback", { body });
    expect(await quotaOf(running)).toBe(3);
    // To where it is already: nothing changes.
    expect((await running.call("POST", "/revisions/6/rollback", { body })).body).toEqual({ changes: [] });
    expect((await running.call("GET", "/revisions")).body.revisions[0].n).toBe(6);
  });

  it("of an app brings back deleted policies and templates, deletes what is newer, and is one revision", async () => {
    const running = await start();
    const { call } = running;
    await call("PUT", "/apps/shop/templates/polite", { body: { onLimit: { status: 503 } } });
    await call("PUT", "/apps/shop/policies/films", { body: { ...perSecond(1), onLimit: { template: "polite" } } });
    await call("DELETE", "/apps/shop/policies/films");
    await call("DELETE", "/apps/shop/templates/polite");
    await call("PUT", "/apps/shop/policies/newer", { body: perSecond(1) });
    const used = (await call("GET", "/apps/shop")).body.used;
    const answer = await call("POST", "/revisions/6/rollback", { body: { app: "shop" } });
    expect(answer.body.revision).toBe(10);
    expect((await call("GET", "/revisions/10")).body.summary).toBe("rolled back shop to revision 6");
    const { policies } = (await call("GET", "/apps/shop/policies")).body;
    expect(policies.map(({ name }: { name: string }) => name)).toEqual(["books", "films"]);
    expect((await call("GET", "/apps/shop/templates/polite")).status).toBe(200);
    const after = (await call("GET", "/apps/shop")).body.used;
    expect(after).toMatchObject({ policies: used.policies, templates: used.templates + 1 });
    // The sums are those of an app that has the same documents by ordinary ways.
    const { bytes, steps } = after;
    await call("DELETE", "/apps/shop/policies/films");
    await call("PUT", "/apps/shop/policies/films", { body: { ...perSecond(1), onLimit: { template: "polite" } } });
    expect((await call("GET", "/apps/shop")).body.used).toMatchObject({ bytes, steps });
  });

  it("deletes many policies that are newer, with the bans of their keys, and brings them back without those", async () => {
    const running = await start();
    const { call } = running;
    const used = async () => (await call("GET", "/apps/shop")).body.used;
    const before = await used();
    for (let i = 0; i < 55; i++) {
      await call("PUT", `/apps/shop/policies/p${i}`, { body: { ...perSecond(1), key: ["header:x-user"] } });
    }
    const { policies, bytes, limits } = await used();
    for (const policy of ["p0", "p54"]) {
      await call("POST", "/apps/shop/bans", { body: { policy, key: ["eve"], for: "1h" } });
    }
    expect((await call("POST", "/revisions/4/rollback", { body: { app: "shop" } })).body.changes).toHaveLength(55);
    expect(await used()).toEqual(before);
    await call("POST", "/revisions/61/rollback", { body: { app: "shop" } });
    expect(await used()).toEqual({ ...before, policies, bytes, limits });
    expect((await call("GET", "/apps/shop/policies?limit=1000")).body.policies).toHaveLength(56);
  });

  it("to what is not valid any more is refused, and changes nothing", async () => {
    const running = await startControlPlane();
    const { call } = running;
    await call("PUT", "/apps/shop", { body: { realm: { hosts: ["a.test", "b.test"] } } });
    await call("PUT", books, { body: { ...perSecond(1), match: { hosts: ["b.test"] } } });
    await call("PUT", books, { body: { ...perSecond(1), match: { hosts: ["a.test"] } } });
    await call("PUT", "/apps/shop", { body: { realm: { hosts: ["a.test"] } } });
    const answer = await call("POST", "/revisions/2/rollback", { body: { app: "shop" } });
    expect([answer.status, answer.body.code]).toEqual([400, "invalid-policy"]);
    expect(answer.body.errors[0].path).toMatch(/^policies\.books\.match/);
    expect((await call("GET", "/revisions")).body.revisions[0].n).toBe(4);
  });

  it("does not bring back a template that the asker may not have, or the app has no realm for any more", async () => {
    const { call } = await startControlPlane();
    const put = (path: string, body: unknown) => call("PUT", path, { body });
    await put("/apps/shop", { realm: { hosts: ["a.test"], redirects: ["@cached"] } });
    const { token } = (await call("POST", "/tokens", { body: { name: "e", app: "shop", role: "editor" } })).body;
    const template = "/apps/shop/templates/t";
    const backTo = (revision: number, as?: string) =>
      call("POST", `/revisions/${revision}/rollback`, {
        body: { app: "shop" },
        ...(as === undefined ? {} : { token: as }),
      });
    const header = { onLimit: { action: "tag", header: "authorization: Bearer service" } };
    const { revision: withHeader } = (await put(template, header)).body;
    const redirect = { onLimit: { action: "degrade", location: "@cached" } };
    const { revision: withRedirect } = (await put(template, redirect)).body;
    await call("DELETE", template);
    const refused = await backTo(withHeader, token);
    expect([refused.status, refused.body.code]).toEqual([400, "invalid-template"]);
    expect(refused.body.errors[0].path).toBe("templates.t.onLimit.header");
    expect((await call("GET", template)).status).toBe(404);
    expect((await backTo(withHeader)).status).toBe(200);
    expect((await call("GET", template)).body).toEqual(header);
    await put("/apps/shop", { realm: { hosts: ["a.test"] } });
    const outside = await backTo(withRedirect);
    expect([outside.status, outside.body.code, outside.body.errors[0].path]).toEqual([
      400,
      "invalid-template",
      "templates.t.onLimit.location",
    ]);
    expect((await call("GET", template)).body).toEqual(header);
  });

  it("of a template is made although an admin's policy uses it that the asker could not store", async () => {
    const { call } = await startControlPlane();
    await call("PUT", "/apps/shop", { body: { realm: { hosts: ["a.test"] } } });
    const { token } = (await call("POST", "/tokens", { body: { name: "e", app: "shop", role: "editor" } })).body;
    const putCost = (cost: number) => call("PUT", "/apps/shop/templates/c", { body: { cost }, token });
    await putCost(2);
    const onLimit = { action: "tag", header: "authorization: Bearer service" };
    const body = { ...perSecond(5), match: { hosts: ["a.test"] }, cost: { template: "c" }, onLimit };
    expect((await call("PUT", "/apps/shop/policies/p", { body, token })).status).toBe(400);
    expect((await call("PUT", "/apps/shop/policies/p", { body })).status).toBe(201);
    const { revision } = (await putCost(3)).body;
    await putCost(4);
    const back = await call("POST", `/revisions/${revision}/rollback`, { body: { app: "shop" }, token });
    expect([back.status, back.body.changes?.length]).toEqual([200, 1]);
    expect((await call("GET", "/apps/shop/templates/c")).body).toEqual({ cost: 3 });
    // But the asker does not bring the policy itself back.
    await call("DELETE", "/apps/shop/policies/p");
    const refused = await call("POST", `/revisions/${revision}/rollback`, { body: { app: "shop" }, token });
    expect([refused.status, refused.body.code]).toEqual([400, "invalid-policy"]);
  });

  it("of a policy that the app never had, to a time before the app, or to one that has not come, is refused and deletes nothing", async () => {
    const running = await start();
    const { call } = running;
    const misspelt = await call("POST", "/revisions/2/rollback", { body: { app: "shop", policy: "boks" } });
    expect([misspelt.status, misspelt.body.detail]).toEqual([
      404,
      'The app "shop" has no policy "boks", and had none at revision 2.',
    ]);
    const early = await call("POST", "/revisions/0/rollback", { body: { app: "shop" } });
    expect([early.status, early.body.detail]).toEqual([404, 'The app "shop" was made after revision 0.']);
    for (const body of [{ app: "shop" }, { app: "shop", policy: "books" }]) {
      const late = await call("POST", "/revisions/999/rollback", { body });
      expect([late.status, late.body.detail]).toEqual([404, "There is no revision 999 yet."]);
    }
    expect((await call("GET", "/revisions")).body.revisions[0].n).toBe(4);
    expect(await quotaOf(running)).toBe(3);
  });

  it("keeps nobody from changes while it is prepared, and undoes those that its app gets meanwhile", async () => {
    const running = await start();
    const { app, call } = running;
    await call("PUT", "/apps/other", { body: { realm: {} } });
    let pauses = 0;
    app.pausesOf = () => async () => {
      pauses += 1;
      if (pauses > 1) return;
      expect((await call("PUT", "/apps/other/policies/p", { body: perSecond(1) })).status).toBe(201);
      await call("PUT", books, { body: perSecond(4) });
      await call("PUT", "/apps/shop/policies/newer", { body: perSecond(4) });
    };
    const { status, body } = await call("POST", "/revisions/2/rollback", { body: { app: "shop" } });
    const changes = body.changes.map(({ name, change }: { name: string; change: string }) => [name, change]);
    expect([status, changes]).toEqual([
      200,
      [
        ["books", "updated"],
        ["newer", "deleted"],
      ],
    ]);
    expect(body.changes[0].patch).toEqual([{ op: "replace", path: "/limits/0/quota", value: 1 }]);
    expect(await quotaOf(running)).toBe(1);
  });

  it("is refused if its app changes each time while it is prepared, but not for bans or other apps", async () => {
    const running = await start();
    const { app, call } = running;
    await call("PUT", "/apps/other", { body: { realm: {} } });
    let change = async (_: number) => {};
    let pauses = 0;
    app.pausesOf = () => async () => {
      pauses += 1;
      await change(pauses);
    };
    change = async (n) => void (await call("PUT", books, { body: perSecond(10 + n) }));
    const refused = await call("POST", "/revisions/2/rollback", { body: { app: "shop" } });
    expect([refused.status, refused.body.code, refused.headers.get("retry-after")]).toEqual([409, "app-changing", "1"]);
    change = async (n) => {
      await call("PUT", "/apps/other/policies/p", { body: perSecond(10 + n) });
      await call("POST", "/apps/shop/bans", { body: { cidr: "192.0.2.1/32", for: "1h" } });
    };
    expect((await call("POST", "/revisions/2/rollback", { body: { app: "shop" } })).status).toBe(200);
    expect(await quotaOf(running)).toBe(1);
  });

  it("is for editors of the app", async () => {
    const running = await start();
    for (const [role, app, status] of [
      ["viewer", "shop", 403],
      ["editor", "default", 403],
      ["editor", "shop", 200],
    ] as const) {
      const token = await tokenFor(running, role, app);
      const answer = await running.call("POST", "/revisions/2/rollback", { token, body: { app: "shop" } });
      expect([role, app, answer.status]).toEqual([role, app, status]);
    }
  });
});

describe("a dry run", () => {
  it.each([
    ["PUT", books, perSecond(9), { kind: "policy", name: "books", change: "updated" }],
    ["PUT", "/apps/shop/policies/new", perSecond(9), { kind: "policy", name: "new", change: "created" }],
    ["DELETE", books, undefined, { kind: "policy", name: "books", change: "deleted" }],
    ["PUT", "/apps/other", { realm: {} }, { kind: "app", name: "other", change: "created" }],
    ["POST", "/apps/shop/bans", { cidr: "203.0.113.0/24", for: "1h" }, { kind: "ban", change: "created" }],
    ["PUT", "/apps/shop/templates/t", { onLimit: { status: 503 } }, { kind: "template", name: "t", change: "created" }],
    ["POST", "/revisions/2/rollback", { app: "shop" }, { kind: "policy", name: "books", change: "updated" }],
  ] as const)("of %s %s says what would change, and changes nothing", async (method, path, body, change) => {
    const running = await start();
    const before = (await running.call("GET", "/revisions")).body;
    const answer = await running.call(method, `${path}?dryRun=true`, body === undefined ? {} : { body });
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({ dryRun: true, revision: 5, changes: [change], gateways: [] });
    expect((await running.call("GET", "/revisions")).body).toEqual(before);
    expect(await quotaOf(running)).toBe(3);
    // The change itself does what the dry run said.
    const { status } = await running.call(method, path, body === undefined ? {} : { body });
    expect(status).toBeLessThan(300);
    expect((await running.call("GET", "/revisions")).body.revisions[0].n).toBe(5);
  });

  it("of what would be refused is refused in the same way", async () => {
    const running = await start();
    for (const [path, body] of [
      [books, { limits: [] }],
      ["/apps/none/policies/x", perSecond(1)],
    ] as const) {
      const real = await running.call("PUT", path, { body });
      const dry = await running.call("PUT", `${path}?dryRun=true`, { body });
      expect([dry.status, dry.body]).toEqual([real.status, real.body]);
    }
  });
});

it("dry runs of long roll-backs by the dozen delay changes of others by a few of them", async () => {
  const running = await start();
  await running.call("PUT", "/apps/other", { body: { realm: {} } });
  const editor = await tokenFor(running, "editor", "shop");
  const put = async (quota: number) => {
    const lines = Array.from({ length: 200 }, (_, i) =>
      JSON.stringify({ ...perSecond(quota), name: `p${i}`, description: "d".repeat(1_500) }),
    );
    const sent = { text: lines.join("\n"), type: "application/jsonl", token: editor };
    return (await running.call("PUT", "/apps/shop/policies", sent)).body.revision;
  };
  const revision = await put(1);
  await put(2);
  const ended: string[] = [];
  const dryRun = () =>
    running.call("POST", `/revisions/${revision}/rollback?dryRun=true`, { body: { app: "shop" }, token: editor });
  const flood = Array.from({ length: 24 }, () => dryRun().then(({ status }) => ended.push(`dry run ${status}`)));
  await until("one has ended", () => ended.length > 0);
  const { status } = await running.call("PUT", "/apps/other/policies/p", { body: perSecond(1) });
  const before = ended.length;
  await Promise.all(flood);
  expect(status).toBe(201);
  expect(before).toBeLessThan(12);
});

describe("the audit trail", () => {
  it("has every change, newest first, with both documents, in pages", async () => {
    const running = await start();
    await running.call("POST", "/tokens", { body: { name: "ann", app: "shop", role: "viewer" } });
    await running.call("GET", "/apps/shop/counters?policy=books");
    const all = (await running.call("GET", "/audit")).body.entries;
    expect(all.map(({ action }: { action: string }) => action)).toEqual([
      "read-counter",
      "create-token",
      "update-policy",
      "update-policy",
      "create-policy",
      "create-app",
    ]);
    expect(all[2]).toMatchObject({ who: "environment", from: "127.0.0.1", app: "shop", policy: "books", revision: 4 });
    expect(all[2].before.limits[0].quota).toBe(2);
    const paged: unknown[] = [];
    for (let next = ""; ; ) {
      const { body } = await running.call("GET", `/audit?limit=1${next}`);
      paged.push(...body.entries);
      if (body.next === undefined) break;
      next = `&before=${body.next}`;
    }
    expect(paged).toEqual(all);
  });

  it("has shorter pages if the documents are large, and every entry once", async () => {
    const { app, call } = await startControlPlane();
    const document = JSON.stringify({ description: "x".repeat(60_000) });
    const entry = { at: 5, who: "ann", source: null, action: "update-policy", app: "default", policy: "books" };
    for (let number = 1; number <= 80; number++) {
      const row = { ...entry, number, subject: null, before: document, after: document };
      await app.database.insertInto("revisions").values(row).execute();
    }
    const seen: number[] = [];
    const sizes: number[] = [];
    for (let next = ""; ; ) {
      const { body } = await call("GET", `/audit?limit=1000${next}`);
      seen.push(...body.entries.map(({ revision }: { revision: number }) => revision));
      sizes.push(body.entries.length);
      if (body.next === undefined) break;
      next = `&before=${body.next}`;
    }
    expect(seen).toEqual(Array.from({ length: 80 }, (_, i) => 80 - i));
    expect(sizes).toEqual(Array.from({ length: 10 }, () => 8));
  });

  it("is filtered by app, person, action, subject and time", async () => {
    const running = await start();
    const token = await tokenFor(running, "editor", "shop");
    await running.call("PUT", books, { token, body: perSecond(7) });
    const count = async (query: string) => (await running.call("GET", `/audit?${query}`)).body.entries.length;
    expect(await count("app=shop")).toBe(6);
    expect(await count("app=default")).toBe(0);
    expect(await count("who=shop/editor")).toBe(1);
    expect(await count("action=update-policy")).toBe(3);
    expect(await count("subject=editor")).toBe(1);
    expect(await count("since=2999-01-01T00:00:00Z")).toBe(0);
    expect(await count("until=2999-01-01T00:00:00Z")).toBe(6);
    expect((await running.call("GET", "/audit?since=yesterday")).body.code).toBe("invalid-request");
    expect((await running.call("GET", "/audit?before=x")).body.code).toBe("invalid-request");
  });

  it("is for owners, who see their own apps", async () => {
    const running = await start();
    const owner = await tokenFor(running, "owner", "default");
    const { body } = await running.call("GET", "/audit", { token: owner });
    expect(body.entries.map(({ app }: { app: string }) => app)).toEqual(["default"]);
    const editor = await tokenFor(running, "editor", "shop");
    expect((await running.call("GET", "/audit", { token: editor })).status).toBe(403);
  });
});
