// Whoever waits for a turn to change something may lose the right to it meanwhile, at another control plane too: every way in which a right
// ends. That each route looks is in every-route.test.ts.

import type { Transaction } from "kysely";
import { describe, expect, it } from "vitest";
import { parseCookieValue } from "../../../control-plane/src/sessions/session-secret.ts";
import type { Tables } from "../../../control-plane/src/storage/tables.ts";
import { hashToken } from "../../../control-plane/src/tokens/token.ts";
import {
  type CallOptions,
  perSecond,
  type Running,
  sharedControlPlane,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { testDatabaseKind } from "../../fixtures/servers/test-database.ts";
import { holdWriting, lookUps } from "./held-writing.ts";

const control = sharedControlPlane();
const policy = perSecond(1);

let made = 0;
const newName = () => {
  made += 1;
  return `one-${made}`;
};

/** Another control plane on the same database. SQLite has one. */
function other(): Promise<Running> {
  const { dataDir } = control();
  return testDatabaseKind === undefined ? Promise.resolve(control()) : startControlPlane({ SLUICE_DATA_DIR: dataDir });
}

interface Sender {
  readonly app: string;
  readonly token: string;
  readonly tokenId: string;
  /** Undefined: the token is a service's. */
  readonly member: string;
}

/** @returns an owner of a new app */
async function owner(kind: "service" | "member" | "admin"): Promise<Sender> {
  const { call } = control();
  const app = newName();
  await call("PUT", `/apps/${app}`, { body: { realm: {} } });
  const member = newName();
  if (kind !== "service") {
    await call("POST", "/members", { body: { name: member, roles: { [app]: "owner" }, admin: kind === "admin" } });
  }
  const whose = kind === "service" ? { app, role: "owner" } : { member };
  const { token, id } = (await call("POST", "/tokens?wait=0s", { body: { name: "t", ...whose } })).body;
  return { app, token, tokenId: id, member };
}

/** Signs in by the token. @returns what comes with each request, and the id of the session */
async function sessionOf({ token }: Sender): Promise<{ credential: CallOptions; id: string }> {
  const { body, headers } = await control().call("POST", "/session", { token: undefined, body: { token } });
  const [cookie = ""] = headers.getSetCookie().map((set) => set.split(";", 1)[0] ?? "");
  const id = parseCookieValue(cookie.split("=")[1] ?? "")?.id ?? "";
  return { credential: { token: undefined, headers: { cookie, "x-csrf-token": body.csrfToken } }, id };
}

type Ending = (transaction: Transaction<Tables>, sender: Sender, session: string) => Promise<unknown>;

const deletesToken: Ending = (transaction, { tokenId }) =>
  transaction.deleteFrom("tokens").where("id", "=", tokenId).execute();
const expires: Ending = (transaction, { tokenId }) =>
  transaction.updateTable("tokens").set({ expires_at: 1_000 }).where("id", "=", tokenId).execute();
const disables: Ending = (transaction, { member }) =>
  transaction.updateTable("members").set({ disabled_at: 1_000 }).where("name", "=", member).execute();
const deletesMember: Ending = (transaction, { member }) =>
  transaction.deleteFrom("members").where("name", "=", member).execute();
const becomes =
  (role: "editor" | "viewer"): Ending =>
  (transaction, { member }) =>
    transaction.updateTable("member_roles").set({ role }).where("member", "=", member).execute();
const takesRole: Ending = (transaction, { member }) =>
  transaction.deleteFrom("member_roles").where("member", "=", member).execute();
const takesAdmin: Ending = (transaction, { member }) =>
  transaction.updateTable("members").set({ is_admin: 0 }).where("name", "=", member).execute();
const signsOut: Ending = (transaction, _, session) =>
  transaction.deleteFrom("sessions").where("id", "=", session).execute();

const lacksRole = (roles: string) => new RegExp(`^This needs ${roles} in the app "one-\\d+", or the role admin\\.$`);
const lostRight = /^You lost a right while the request waited\. Send it again if you may still do this\.$/;

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly body: object;
}
const stores = ({ app }: Sender): Asked => ({ method: "PUT", path: `/apps/${app}/policies/p`, body: policy });
const tries = ({ app }: Sender): Asked => ({
  method: "PUT",
  path: `/apps/${app}/policies/p?dryRun=true`,
  body: policy,
});
const mints = ({ app }: Sender): Asked => {
  return { method: "POST", path: "/tokens?wait=0s", body: { name: "back-door", app, role: "owner" } };
};

type Row = readonly [
  what: string,
  kind: Parameters<typeof owner>[0],
  asks: (sender: Sender) => Asked,
  ends: Ending,
  status: number,
  detail: RegExp,
];
const rows: readonly Row[] = [
  ["a service's token is deleted", "service", mints, deletesToken, 401, /^The token is unknown\.$/],
  ["a service's token expires", "service", stores, expires, 401, /^The token has expired\.$/],
  ["a member's token is deleted", "member", stores, deletesToken, 401, /^The token is unknown\.$/],
  ["a member is disabled", "member", mints, disables, 401, /^The member to whom the token belongs is disabled\.$/],
  ["a member is deleted", "member", stores, deletesMember, 401, /^The token is unknown\.$/],
  ["an owner becomes a viewer", "member", stores, becomes("viewer"), 403, lacksRole("one of the roles owner, editor")],
  ["an owner becomes a viewer, in a dry run", "member", tries, becomes("viewer"), 403, /^This needs/],
  ["an owner becomes an editor who may not make tokens", "member", mints, becomes("editor"), 403, lostRight],
  ["a member has no role in the app any more", "member", mints, takesRole, 403, lostRight],
  ["an admin is an owner alone", "admin", stores, takesAdmin, 403, lostRight],
];

/** Sends a request that waits, and lets it go on when the right has ended. */
async function askWhile(
  sender: Sender,
  asked: Asked,
  credential: CallOptions,
  lookedFor: string,
  ends: Ending,
  session = "",
) {
  const goOn = await holdWriting(await other(), (transaction) => ends(transaction, sender, session));
  const wasLookedFor = lookUps(control().app);
  const answering = control().call(asked.method, asked.path, { ...credential, body: asked.body });
  await wasLookedFor(lookedFor);
  await goOn();
  return answering;
}

async function expectNothingOf({ app }: Sender): Promise<void> {
  const { call } = control();
  expect((await call("GET", `/apps/${app}/policies`)).body.policies).toEqual([]);
  const { tokens } = (await call("GET", "/tokens?limit=1000")).body;
  expect(tokens.filter((one: { app: string; name: string }) => one.app === app && one.name === "back-door")).toEqual(
    [],
  );
}

describe("a change that waits for its turn is not made if", () => {
  it.each(rows)("%s meanwhile", async (_, kind, asks, ends, status, detail) => {
    const sender = await owner(kind);
    const { token } = sender;
    const answer = await askWhile(sender, asks(sender), { token }, hashToken(token), ends);
    expect([answer.status, answer.body.detail]).toEqual([status, expect.stringMatching(detail)]);
    await expectNothingOf(sender);
  });

  it.each([
    ["its session ends", "member", signsOut, /^The session has ended: sign in again\.$/],
    [
      "the token of its session is deleted",
      "service",
      deletesToken,
      /^The token or the member of the session was deleted/,
    ],
    ["the member of its session is disabled", "member", disables, /^The member who is signed in is disabled\.$/],
  ] as const)("%s meanwhile", async (_, kind, ends, detail) => {
    const sender = await owner(kind);
    const { credential, id } = await sessionOf(sender);
    // The second request with the cookie writes nothing by itself.
    await control().call("GET", "/session", credential);
    const answer = await askWhile(sender, mints(sender), credential, id, ends, id);
    expect([answer.status, answer.body.detail]).toEqual([401, expect.stringMatching(detail)]);
    await expectNothingOf(sender);
  });
});

describe("a change that waits for its turn is made", () => {
  it.each([
    ["its sender loses a right that it does not need", "member", stores, becomes("editor"), 201],
    ["nothing ends", "service", mints, async () => undefined, 201],
  ] as const)("if %s meanwhile", async (_, kind, asks, ends, status) => {
    const sender = await owner(kind);
    const { token } = sender;
    const answer = await askWhile(sender, asks(sender), { token }, hashToken(token), ends);
    expect(answer.status).toBe(status);
  });
});
