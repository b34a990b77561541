// Every route is asked by everybody, and answers as the table of routes says. Whatever is changed leaves an entry of the history or of
// the audit trail. The table is that of docs/security.md; a route that is added needs a request in `requests` below.

import { CompiledQuery } from "kysely";
import { beforeAll, describe, expect, it } from "vitest";
import { fill } from "../../../bench/lists/rows.ts";
import {
  type Asker,
  askers,
  type Cell,
  cellOf,
  forStrangers,
  type RouteRow,
} from "../../../control-plane/src/plugins/route-table.ts";
import { type AuditEntry, listAudit } from "../../../control-plane/src/storage/audit-trail.ts";
import { hashToken } from "../../../control-plane/src/tokens/token.ts";
import { operationsOf } from "../../fixtures/clients/described-answers.ts";
import {
  type Answer,
  adminToken,
  type CallOptions,
  gatewayToken,
  perSecond,
  sharedControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { untilPasses } from "../../fixtures/until.ts";
import { holdWriting, lookUps } from "./held-writing.ts";
import { renewStatistics, rowsReadBy, Statements } from "./statements.ts";

/** Each request has a second of its own, so that its entries are known by their time. */
let nowMs = 1_900_000_000_000;
const control = sharedControlPlane({}, { now: () => nowMs });

interface Asked {
  /** Below /api/v1, or without a slash below the root. */
  readonly path: string;
  readonly body?: unknown;
  /** A body of another type than JSON. */
  readonly text?: string;
  readonly type?: string;
  /** The status if the request is allowed. Default: 200. */
  readonly status?: number;
  /** Whether it is sent with a session's cookie by those who can sign in. */
  readonly inSession?: boolean;
  /** The action of the entry that it leaves. */
  readonly leaves?: string;
}

/** What a request is about: something of the app shop, or the asker's own. */
type Whose = "shop" | Asker;

let made = 0;
/** Makes something as an admin, with a name that was never used. */
async function make(
  method: string,
  pathOf: (name: string) => string,
  body?: object,
): Promise<Answer & { name: string }> {
  made += 1;
  const name = `thing-${made}`;
  const answer = await control().call(method, pathOf(name), body === undefined ? {} : { body });
  expect([method, pathOf(name), answer.status]).toEqual([method, pathOf(name), 201]);
  return { ...answer, name };
}

const shop = "/apps/shop";
const policy = () => perSecond(made + 1);
const ban = { cidr: "203.0.113.0/24", for: "1h" };
const template = { onLimit: { status: 503 } };
const memberOf = (asker: Whose) => asker.replace(": ", "-");
const counter = `${shop}/counters?policy=books`;

/** A request for each route, as somebody sends it who may. */
const requests: Readonly<Record<string, (whose: Whose) => Promise<Asked>>> = {
  "GET /openapi.json": async () => ({ path: "openapi.json" }),
  "GET /healthz": async () => ({ path: "healthz" }),
  "GET /readyz": async () => ({ path: "readyz" }),
  "GET /metrics": async () => ({ path: "metrics" }),
  "GET /api/v1/push": async () => ({ path: "/push", status: 426 }),
  "GET /api/v1/apps": async () => ({ path: "/apps" }),
  "GET /api/v1/apps/:app": async () => ({ path: shop }),
  "PUT /api/v1/apps/:app": async () => {
    made += 1;
    return { path: shop, body: { bounds: { policies: 100 + made } }, leaves: "update-app" };
  },
  "DELETE /api/v1/apps/:app": async () => {
    const { name } = await make("PUT", (one) => `/apps/${one}`, { realm: {} });
    return { path: `/apps/${name}`, leaves: "delete-app" };
  },
  "GET /api/v1/apps/:app/policies": async () => ({ path: `${shop}/policies` }),
  "POST /api/v1/apps/:app/policies/validate": async () => ({ path: `${shop}/policies/validate`, body: policy() }),
  "GET /api/v1/apps/:app/policies/:policy": async () => ({ path: `${shop}/policies/books` }),
  "PUT /api/v1/apps/:app/policies/:policy": async () => {
    made += 1;
    return { path: `${shop}/policies/books`, body: policy(), leaves: "update-policy" };
  },
  "DELETE /api/v1/apps/:app/policies/:policy": async () => {
    const { name } = await make("PUT", (one) => `${shop}/policies/${one}`, policy());
    return { path: `${shop}/policies/${name}`, leaves: "delete-policy" };
  },
  "PUT /api/v1/apps/:app/policies": async () => {
    made += 1;
    const text = JSON.stringify({ name: `many-${made}`, ...policy() });
    return { path: `${shop}/policies`, text, type: "application/jsonl", leaves: "put-policies" };
  },
  "GET /api/v1/library": async () => ({ path: "/library" }),
  "GET /api/v1/library/:template": async () => ({ path: "/library/polite-429" }),
  "GET /api/v1/apps/:app/templates": async () => ({ path: `${shop}/templates` }),
  "GET /api/v1/apps/:app/templates/:template": async () => ({ path: `${shop}/templates/polite` }),
  "PUT /api/v1/apps/:app/templates/:template": async () => {
    made += 1;
    return { path: `${shop}/templates/new-${made}`, body: template, status: 201, leaves: "create-template" };
  },
  "DELETE /api/v1/apps/:app/templates/:template": async () => {
    const { name } = await make("PUT", (one) => `${shop}/templates/${one}`, template);
    return { path: `${shop}/templates/${name}`, leaves: "delete-template" };
  },
  "GET /api/v1/apps/:app/networks": async () => ({ path: `${shop}/networks` }),
  "GET /api/v1/apps/:app/networks/:networks": async () => ({ path: `${shop}/networks/office` }),
  "PUT /api/v1/apps/:app/networks/:networks": async () => {
    made += 1;
    const path = `${shop}/networks/new-${made}`;
    return { path, text: "10.0.0.0/8", type: "text/plain", status: 201, leaves: "create-networks" };
  },
  "DELETE /api/v1/apps/:app/networks/:networks": async () => {
    made += 1;
    const path = `${shop}/networks/old-${made}`;
    await control().call("PUT", path, { text: "10.0.0.0/8", type: "text/plain" });
    return { path, leaves: "delete-networks" };
  },
  "GET /api/v1/apps/:app/bans": async () => ({ path: `${shop}/bans` }),
  "POST /api/v1/apps/:app/bans": async () => ({ path: `${shop}/bans`, body: ban, status: 201, leaves: "create-ban" }),
  "GET /api/v1/apps/:app/bans/:ban": async () => {
    const { body } = await make("POST", () => `${shop}/bans`, ban);
    return { path: `${shop}/bans/${body.id}` };
  },
  "DELETE /api/v1/apps/:app/bans/:ban": async () => {
    const { body } = await make("POST", () => `${shop}/bans`, ban);
    return { path: `${shop}/bans/${body.id}`, leaves: "delete-ban" };
  },
  "GET /api/v1/apps/:app/consumers": async () => ({ path: `${shop}/consumers` }),
  "GET /api/v1/apps/:app/consumers/:consumer": async () => {
    const { name } = await make("PUT", (one) => `${shop}/consumers/${one}`, { plan: "pro" });
    return { path: `${shop}/consumers/${name}` };
  },
  "PUT /api/v1/apps/:app/consumers/:consumer": async () => {
    made += 1;
    return { path: `${shop}/consumers/new-${made}`, body: { plan: "pro" }, status: 201, leaves: "put-consumer" };
  },
  "DELETE /api/v1/apps/:app/consumers/:consumer": async () => {
    const { name } = await make("PUT", (one) => `${shop}/consumers/${one}`, { plan: "pro" });
    return { path: `${shop}/consumers/${name}`, leaves: "delete-consumer" };
  },
  "PUT /api/v1/apps/:app/consumers": async () => {
    made += 1;
    const text = JSON.stringify({ id: `many-${made}`, plan: "pro" });
    return { path: `${shop}/consumers`, text, type: "application/jsonl", leaves: "import-consumers" };
  },
  "GET /api/v1/apps/:app/counters": async () => ({ path: counter, leaves: "read-counter" }),
  "DELETE /api/v1/apps/:app/counters": async () => ({ path: counter, leaves: "reset-counter" }),
  "POST /api/v1/apps/:app/counters": async () => {
    return { path: `${shop}/counters`, body: { policy: "books", units: 1 }, leaves: "top-up-counter" };
  },
  "GET /api/v1/tokens": async () => ({ path: "/tokens" }),
  "POST /api/v1/tokens": async (whose) => {
    const body = whose === "shop" ? { app: "shop", role: "viewer" } : { member: memberOf(whose) };
    return { path: "/tokens", body: { name: "new", ...body }, status: 201, leaves: "create-token" };
  },
  "DELETE /api/v1/tokens/:id": async (whose) => {
    const of = whose === "shop" ? { app: "shop", role: "caller" } : { member: memberOf(whose) };
    const { body } = await make("POST", () => "/tokens?wait=0s", { name: "made", ...of });
    return { path: `/tokens/${body.id}`, leaves: "delete-token" };
  },
  "GET /api/v1/members": async () => ({ path: "/members" }),
  "GET /api/v1/members/:member": async () => ({ path: "/members/member-viewer" }),
  "POST /api/v1/members": async () => {
    made += 1;
    const body = { name: `new-${made}`, roles: { shop: "viewer" } };
    return { path: "/members", body, status: 201, leaves: "create-member" };
  },
  "PATCH /api/v1/members/:member": async () => {
    const { body } = await make("POST", () => "/members", { name: `bob-${made}`, roles: { shop: "viewer" } });
    return { path: `/members/${body.name}`, body: { roles: { shop: "editor" } }, leaves: "update-member" };
  },
  "DELETE /api/v1/members/:member": async () => {
    const { body } = await make("POST", () => "/members", { name: `bob-${made}`, roles: { shop: "viewer" } });
    return { path: `/members/${body.name}`, leaves: "delete-member" };
  },
  "GET /api/v1/audit": async () => ({ path: "/audit" }),
  "GET /api/v1/revisions": async () => ({ path: "/revisions" }),
  "GET /api/v1/revisions/:revision": async () => ({ path: `/revisions/${firstOfShop}` }),
  "GET /api/v1/revisions/:from/diff/:to": async () => ({ path: `/revisions/0/diff/${firstOfShop}` }),
  "POST /api/v1/revisions/:revision/rollback": async () => {
    await make("PUT", (one) => `${shop}/policies/${one}`, policy());
    const body = { app: "shop", policy: `thing-${made}` };
    return { path: `/revisions/${firstOfShop}/rollback`, body, leaves: "roll-back" };
  },
  "POST /api/v1/epoch": async () => ({ path: "/epoch", leaves: "begin-epoch" }),
  "GET /api/v1/apps/:app/top": async () => ({ path: `${shop}/top?policy=books` }),
  "GET /api/v1/apps/:app/traffic": async () => ({ path: `${shop}/traffic` }),
  "GET /api/v1/traffic": async () => ({ path: "/traffic" }),
  "GET /api/v1/apps/:app/traffic/policies": async () => ({ path: `${shop}/traffic/policies` }),
  "GET /api/v1/events": async () => ({ path: "/events" }),
  "GET /api/v1/session": async () => ({ path: "/session" }),
  "POST /api/v1/session": async () => ({
    path: "/session",
    body: { token: adminToken },
    status: 201,
    leaves: "sign-in",
  }),
  "DELETE /api/v1/session": async () => ({ path: "/session", inSession: true, leaves: "sign-out" }),
  // Without a provider.
  "GET /api/v1/session/oidc": async () => ({ path: "/session/oidc", status: 404 }),
  "GET /api/v1/session/oidc/callback": async () => ({ path: "/session/oidc/callback", status: 404 }),
  "GET /api/v1/gateways": async () => ({ path: "/gateways" }),
};

/** What all requests of this file ask of the database. */
let statements: Statements;
/** An early revision of the app shop. */
let firstOfShop = 0;
const tokens: Partial<Record<Asker, string>> = { admin: adminToken, gateway: gatewayToken };
/** What the history calls them. */
const names: Partial<Record<Asker, string>> = {};

beforeAll(async () => {
  const { call } = control();
  statements = new Statements(control().app);
  await call("PUT", "/apps/bank", { body: { realm: {} } });
  await call("PUT", shop, { body: { realm: {} } });
  firstOfShop = (await call("PUT", `${shop}/policies/books`, { body: policy() })).body.revision;
  await call("PUT", `${shop}/templates/polite`, { body: template });
  await call("PUT", `${shop}/networks/office`, { text: "10.0.0.0/8", type: "text/plain" });
  names.admin = (await call("GET", "/revisions")).body.revisions[0].who;
  const tokenOf = async (body: object) => (await call("POST", "/tokens?wait=0s", { body })).body.token as string;
  for (const role of ["owner", "editor", "viewer", "caller"] as const) {
    tokens[role] = await tokenOf({ name: role, app: "shop", role });
    names[role] = `shop/${role}`;
  }
  for (const role of ["owner", "editor", "viewer"] as const) {
    const name = memberOf(`member: ${role}`);
    await call("POST", "/members", { body: { name, roles: { shop: role } } });
    tokens[`member: ${role}`] = await tokenOf({ name: "own", member: name });
    names[`member: ${role}`] = name;
  }
  tokens.stranger = await tokenOf({ name: "stranger", app: "bank", role: "owner" });
  names.stranger = "bank/stranger";
  await call("POST", "/members", { body: { name: "gone", roles: { shop: "owner" } } });
  tokens["disabled member"] = await tokenOf({ name: "own", member: "gone" });
  await call("PATCH", "/members/gone", { body: { disabled: true } });
  tokens["expired token"] = await tokenOf({ name: "expired", app: "shop", role: "owner", expiresIn: "1s" });
  nowMs += 2_000;
});

/** Sends a request in a second of its own. @returns with the entries that it left */
async function ask(method: string, asker: Asker, asked: Asked): Promise<Answer & { entries: AuditEntry[] }> {
  const credential = (asked.inSession ? await sessionOf(asker) : undefined) ?? { token: tokens[asker] };
  nowMs += 1_000;
  const answer = await sendAs(credential, method, asked);
  return { ...answer, entries: await entriesOfNow() };
}

function sendAs(credential: CallOptions, method: string, { path, body, text, type }: Asked): Promise<Answer> {
  return control().call(method, path, {
    ...credential,
    ...(body === undefined ? {} : { body }),
    ...(text === undefined ? {} : { text }),
    ...(type === undefined ? {} : { type }),
  });
}

async function entriesOfNow(): Promise<AuditEntry[]> {
  const filter = { apps: undefined, sinceMs: nowMs };
  return (await listAudit(control().app.database, filter, undefined, 100, () => Promise.resolve())).entries;
}

/** @returns what comes with a request of a session; undefined: the asker cannot sign in */
async function sessionOf(asker: Asker): Promise<CallOptions | undefined> {
  const body = { token: tokens[asker] ?? "" };
  const { status, body: session, headers } = await control().call("POST", "/session", { token: undefined, body });
  if (status !== 201) return undefined;
  const cookie = headers.getSetCookie().map((set) => set.split(";", 1)[0]);
  return { token: undefined, headers: { cookie: cookie.join("; "), "x-csrf-token": session.csrfToken } };
}

/** What an entry has, by what it says was done. Counters are changed outside of the database: their entry says what was asked. */
function documentsOf(action: string): { before: boolean; after: boolean } {
  const [verb] = action.split("-");
  if (["top-up-counter", "put-consumer", "import-consumers"].includes(action)) return { before: false, after: true };
  return {
    before: ["update", "put", "delete", "roll", "begin"].includes(verb as string),
    after: ["create", "update", "put", "roll", "begin"].includes(verb as string) || action === "sign-in",
  };
}

function expectEntries(row: RouteRow, asker: Asker, { leaves }: Asked, entries: readonly AuditEntry[]): void {
  if (row.records === "nothing") {
    expect(entries).toEqual([]);
    return;
  }
  expect(entries.map(({ action }) => action)).toContain(leaves);
  if (row.records === "revision") expect(entries.map(({ revision }) => typeof revision)).toContain("number");
  for (const entry of entries) {
    // At a public route it is the body that says who somebody is.
    const who = row.access === "public" ? names.admin : names[asker];
    expect(entry).toMatchObject({ who, from: "127.0.0.1", atMs: nowMs });
  }
  const entry = entries.find(({ action }) => action === leaves);
  const documents = { before: entry?.before !== undefined, after: entry?.after !== undefined };
  expect([leaves, documents]).toEqual([leaves, documentsOf(leaves as string)]);
}

const codes: Readonly<Record<number, RegExp>> = { 401: /^unauthorized$/, 403: /^forbidden$/, 404: /-not-found$/ };

async function expectRefusal(row: RouteRow, asker: Asker, asked: Asked, status: Cell): Promise<void> {
  const answer = await ask(row.method, asker, asked);
  expect([asker, answer.status]).toEqual([asker, status]);
  expect(answer.body.code).toMatch(codes[status as number] as RegExp);
  expect(answer.entries).toEqual([]);
}

function takesDryRun({ method, url }: RouteRow): boolean {
  const path = url.replaceAll(/:(\w+)/g, "{$1}");
  const operation = operationsOf(control().app.swagger()).find((one) => one.method === method && one.path === path);
  return operation?.parameters.some(({ name }) => name === "dryRun") === true;
}

/** A dry run is answered as if it had been carried out, but says that it was none, and leaves nothing. */
async function expectRehearsal({ method }: RouteRow, asked: Asked): Promise<void> {
  const { status, body, entries } = await ask(method, "admin", { ...asked, path: `${asked.path}?dryRun=true` });
  expect([status, body.dryRun, entries]).toEqual([200, true, []]);
}

/** Whether an answer says anything of the app shop, or of people other than the asker. */
function tellsOfShop(body: unknown, asker: Asker): boolean {
  const others = askers.filter((one) => one.startsWith("member") && one !== asker).map(memberOf);
  return new RegExp(["shop", ...others].join("|")).test(JSON.stringify(body));
}

const keyOf = ({ method, url }: RouteRow) => `${method} ${url}`;

describe("every route", () => {
  it("has a request here, and every request has a route", () => {
    const { routeTable } = control().app;
    expect(routeTable.map(keyOf).sort()).toEqual(Object.keys(requests).sort());
  });

  it.each(Object.entries(requests))(
    "%s: lets do it who may, records it, and refuses everybody else",
    async (key, request) => {
      const row = control().app.routeTable.find((one) => keyOf(one) === key) as RouteRow;
      const cells: Record<Cell, number> = { yes: 0, own: 0, 401: 0, 403: 0, 404: 0 };
      for (const asker of askers) {
        const cell = cellOf(row, asker);
        cells[cell] += 1;
        if (cell !== "yes" && cell !== "own") {
          await expectRefusal(row, asker, await request("shop"), cell);
          continue;
        }
        const hasOwn = cell === "own" && row.strangers !== "filtered";
        const asked = await request(hasOwn ? asker : "shop");
        const answer = await ask(row.method, asker, asked);
        expect([asker, answer.status, answer.body]).toEqual([asker, asked.status ?? 200, answer.body]);
        expectEntries(row, asker, asked, answer.entries);
        if (cell === "own") expect(tellsOfShop(answer.body, asker)).toBe(false);
        if (hasOwn) await expectRefusal(row, asker, await request("shop"), forStrangers[row.strangers]);
      }
      if (takesDryRun(row)) await expectRehearsal(row, await request("shop"));
      // Of a route that is not public, somebody is let in, and somebody is not.
      expect(cells.yes).toBeGreaterThan(0);
      if (row.access !== "public") expect(cells[401]).toBe(3);
    },
  );
});

/** Who signs out, or signs in, has no right that could have ended: session.test.ts has what the session depends on. */
const ofSessions = ["POST /api/v1/session", "DELETE /api/v1/session"];
const recording = Object.keys(requests).filter(
  (key) => !ofSessions.includes(key) && !key.endsWith("/validate") && !/^GET (?!.*counters$)/.test(key),
);

describe("a change that waits for its turn", () => {
  it("is that of each route that records something", () => {
    const rows = control().app.routeTable.filter(({ records }) => records !== "nothing");
    expect([...recording, ...ofSessions].sort()).toEqual(rows.map(keyOf).sort());
  });

  it.each(recording)("is not made if its sender's token is deleted meanwhile: %s", async (key) => {
    const { call, app } = control();
    const { method } = app.routeTable.find((one) => keyOf(one) === key) as RouteRow;
    const asked = await (requests[key] as (whose: Whose) => Promise<Asked>)("shop");
    made += 1;
    const member = `admin-${made}`;
    await call("POST", "/members", { body: { name: member, admin: true } });
    const { id, token } = (await call("POST", "/tokens", { body: { name: "own", member } })).body;
    const wasLookedFor = lookUps(app);
    nowMs += 1_000;
    const goOn = await holdWriting(control(), (transaction) =>
      transaction.deleteFrom("tokens").where("id", "=", id).execute(),
    );
    const answering = sendAs({ token }, method, asked);
    // It is let in while the token is still there for all others.
    await wasLookedFor(hashToken(token));
    await goOn();
    const { status, body } = await answering;
    expect([status, body.detail, await entriesOfNow()]).toEqual([401, "The token is unknown.", []]);
  });
});

describe("a route that does not say", () => {
  const add = async (config: object, method: "GET" | "POST" = "POST") => {
    const { default: fastify } = await import("fastify");
    const { default: routeTable } = await import("../../../control-plane/src/plugins/route-table.ts");
    const app = fastify();
    await app.register(routeTable);
    app.route({ method, url: "/api/v1/things", config, handler: async () => ({}) });
    return app.routeTable;
  };

  it("what it records is not added", async () => {
    await expect(add({})).rejects.toThrow("POST /api/v1/things: expected config.records");
    expect(await add({ records: "audit" })).toMatchObject([{ access: "own", records: "audit", strangers: "refused" }]);
  });

  it("what those see who have the right in another app is not added", async () => {
    await expect(add({ access: "read" }, "GET")).rejects.toThrow("GET /api/v1/things: expected config.strangers");
    expect(await add({ access: "read", strangers: "filtered" }, "GET")).toMatchObject([{ records: "nothing" }]);
  });
});

/** Lists from where a page begins, and what is looked for in them. */
const furtherLists = [
  ...["policies", "templates", "networks", "bans", "consumers"].map((list) => `${shop}/${list}?limit=1000&after=b`),
  ...["plan=pro", "prefix=c", "plan=pro&prefix=c", "plan=pro&after=b"].map((query) => `${shop}/consumers?${query}`),
  ...["/apps", "/tokens", "/members"].map((list) => `${list}?after=b`),
  "/revisions?before=2",
  ...["", "app=shop&"].flatMap((app) =>
    ["who=ann", "subject=books", "action=put-consumer", "action=update-policy", "since=2020-01-01T00:00:00Z"].map(
      (query) => `/audit?${app}${query}`,
    ),
  ),
];

/** The bounds of all apps keep these small: gateways have all of them, or there is a row for each app. */
const smallTables = [
  "meta",
  "apps",
  "usage",
  "policies",
  "templates",
  "network_lists",
  "bans",
  "consumer_imports",
  "control_planes",
  "live_gateways",
  "counter_orders",
  "relayed_activity",
];
/** Gateways have all callers' tokens, too. */
const readsCallers = /from .tokens. where .role. = /;

describe("a statement", () => {
  const dayMs = 86_400_000;
  const rows = 10_000;
  /** A page has a thousand rows at most, and one more that says whether there is another page. */
  const mostRead = 1_001;
  /** In the audit trail, a page looks at 2,000. PostgreSQL may find them by their times, with the few of the small app between them. */
  const mostLookedAt = 2_020;
  /** A month of an app and of a policy, and since when hours are known. */
  const mostHours = 2 * 31 * 24 + 1;

  it("reads a page of a table at most, whatever else is in it", async () => {
    const { app, call } = control();
    for (const path of furtherLists) expect([path, (await call("GET", path)).status]).toEqual([path, 200]);
    await app.deleteOutdated();
    for (const query of ["", "&policy=books"]) await call("GET", `${shop}/traffic?step=hour&since=30d${query}`);
    // A minute of a former day is summed up, and an hour of a former month is deleted.
    await app.database
      .insertInto("traffic_minutes")
      .values({ at: nowMs - 2 * dayMs, traffic: "[]" })
      .execute();
    const oldHour = { name: "shop/", at: nowMs - 40 * dayMs, traffic: "{}" };
    await app.database.insertInto("traffic_hours").values(oldHour).execute();
    nowMs += dayMs / 24;
    const old = (table: "traffic_minutes" | "traffic_hours", days: number) =>
      app.database
        .selectFrom(table)
        .select("at")
        .where("at", "<", nowMs - days * dayMs)
        .execute();
    await untilPasses(async () =>
      expect([await old("traffic_minutes", 1), await old("traffic_hours", 31)]).toEqual([[], []]),
    );
    // A gateway that lacks all changes of consumers but the first.
    const { epoch } = app.consumerFeed.newest;
    const consumers = { epoch, position: 1, count: 1, unstored: 0 };
    const gateway = await connectGateway(control(), "g1", { epoch: "", revision: 0, protocol: 3, consumers });
    await gateway.next("consumers" as never);
    const made = statements.end();
    await fill(app.database, rows, nowMs, { large: "full", small: "kiosk" });
    await renewStatistics(app.database);
    const tooMany: [string, number, string][] = [];
    for (const { sql: text, parameters } of made) {
      // It asks for what is in the app that is full, and not in the one that every request was for.
      const ofFull = parameters.map((one) => (typeof one === "string" ? one.replace(/^shop(?=$|\/)/, "full") : one));
      for (const [table, count] of await rowsReadBy(app.database, CompiledQuery.raw(text, ofFull))) {
        const isMeant = smallTables.includes(table) || readsCallers.test(text);
        const mostOfTable = table === "traffic_hours" ? mostHours : mostRead;
        const most = /as .looked./.test(text) || /offset/.test(text) ? mostLookedAt : mostOfTable;
        if (count > most && !isMeant) tooMany.push([table, count, text]);
      }
    }
    expect(made.length).toBeGreaterThan(100);
    expect(tooMany).toEqual([]);
  });
});
