// Fills a control plane's database: an app with many rows in every list, and a small app beside it, whose owner must not wait for the
// rows of the other one.
import type { Database, Tables } from "../../control-plane/src/storage/tables.ts";
import { hashToken } from "../../control-plane/src/tokens/token.ts";

export const apps = { large: "shop", small: "kiosk" } as const;
/** By app: the token of an owner. */
export const ownerTokens = { shop: "bench-owner-of-shop", kiosk: "bench-owner-of-kiosk" } as const;

const atOnce = 200;
const longMs = 366 * 86_400_000;
const hourMs = 3_600_000;
const hoursOfMonth = 31 * 24;

/** Row i of n is of the small app once in a thousand, of the large one otherwise. */
export async function fill(
  database: Database,
  rows: number,
  nowMs: number,
  { large, small }: { readonly large: string; readonly small: string } = apps,
): Promise<void> {
  const appOf = (i: number) => (i % 1_000 === 500 ? small : large);
  const id = (i: number) => (nowMs - rows + i).toString(36).padStart(9, "0") + String(i).padStart(16, "0");
  const at = (i: number) => nowMs - rows + i;
  const document = JSON.stringify({
    name: "p",
    description: "As long as policies are that somebody has written by hand and explained a little.",
    match: { hosts: ["shop.example"], paths: ["/sluice/1", "/sluice/1/*"] },
    key: ["ip"],
    limits: [
      { name: "burst", algorithm: "token-bucket", quota: 10, window: "1s", burst: 100 },
      { name: "daily", algorithm: "fixed-window", quota: 1_000_000, window: "1d" },
    ],
  });
  const app = { created_at: nowMs, revision: 0, realm: JSON.stringify({}), bounds: null };
  await insert(database, "apps", 2, (i) => ({ name: i === 0 ? large : small, ...app }));
  const token = {
    role: "owner",
    created_at: nowMs,
    expires_at: null,
    last_four: "last",
    member: null,
    last_used_at: null,
  };
  await insert(database, "tokens", 2, (i) => {
    const hash = hashToken(i === 0 ? ownerTokens.shop : ownerTokens.kiosk);
    return { ...token, id: id(-2 + i), hash, name: "owner", app: i === 0 ? large : small };
  });
  await insert(database, "tokens", rows, (i) => {
    return { ...token, id: id(i), hash: hashToken(`bench-${i}`), name: `token ${i}`, app: appOf(i), role: "viewer" };
  });
  await insert(database, "policies", rows, (i) => {
    const sizes = { revision: i + 1, updated_at: at(i), bytes: document.length, steps: 0 };
    return { app: appOf(i), name: nameOf("policy", i), document, owner: "bench", ...sizes };
  });
  await insert(database, "members", rows, (i) => {
    const made = { created_at: at(i), created_by: "bench", version: 1, issuer: null, subject: null };
    return { name: nameOf("member", i), is_admin: 0, disabled_at: null, ...made };
  });
  await insert(database, "member_roles", rows, (i) => ({ member: nameOf("member", i), app: appOf(i), role: "viewer" }));
  await insert(database, "bans", rows, (i) => {
    const banned = { cidr: `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}/32`, policy: null, key_values: null };
    const made = { created_at: at(i), created_by: "bench", revision: i + 1, bytes: 100 };
    return { id: id(i), app: appOf(i), ...banned, until_at: nowMs + longMs, reason: "bench", ...made };
  });
  const { revision, consumers_position } = await database
    .selectFrom("meta")
    .select(["revision", "consumers_position"])
    .executeTakeFirstOrThrow();
  const first = Number(revision) + 1;
  const firstPosition = Number(consumers_position) + 1;
  await insert(database, "consumers", rows, (i) => {
    const made = { overrides: null, position: firstPosition + i, changed_at: at(i) };
    return { app: appOf(i), id: nameOf("consumer", i), plan: i % 2 === 0 ? "pro" : "free", ...made };
  });
  await insert(database, "consumer_deletions", rows, (i) => {
    return { position: firstPosition + rows + i, app: appOf(i), id: nameOf("deleted", i), deleted_at: at(i) };
  });
  await insert(database, "sessions", rows, (i) => {
    const secrets = { hash: hashToken(`session-${i}`), former_hash: null, session_key: "0".repeat(43) };
    const times = { created_at: at(i), rotated_at: at(i), confirmed_at: null, used_at: at(i), ends_at: nowMs + longMs };
    return { id: nameOf("session", i), ...secrets, token: null, member: nameOf("member", i), ...times };
  });
  const change = { source: "127.0.0.1", before: document, after: document };
  await insert(database, "revisions", rows, (i) => {
    const what = { action: "update-policy", app: appOf(i), policy: nameOf("policy", i), subject: null };
    return { number: first + i, at: at(i), who: `person-${i % 100}`, ...what, ...change };
  });
  await insert(database, "audit", rows, (i) => {
    const what = { action: "reset-counter", app: appOf(i), subject: nameOf("policy", i), bytes: 100 };
    return { id: id(i), at: at(i), who: `person-${i % 100}`, ...what, ...change };
  });
  await insert(database, "traffic_hours", rows, (i) => {
    const policies = ["", "books"];
    const policy = policies[Math.floor(i / hoursOfMonth)] ?? nameOf("policy", Math.floor(i / hoursOfMonth));
    return { name: `${large}/${policy}`, at: nowMs - (nowMs % hourMs) - (i % hoursOfMonth) * hourMs, traffic: "{}" };
  });
  await database
    .updateTable("meta")
    .set({ revision: Number(revision) + rows, consumers_position: firstPosition + 2 * rows })
    .where("id", "=", 1)
    .execute();
}

function nameOf(kind: string, i: number): string {
  return `${kind}-${String(i).padStart(7, "0")}`;
}

export async function insert(
  database: Database,
  table: keyof Tables,
  rows: number,
  rowOf: (i: number) => object,
): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    for (let from = 0; from < rows; from += atOnce) {
      const some = Array.from({ length: Math.min(atOnce, rows - from) }, (_, i) => rowOf(from + i));
      await transaction
        .insertInto(table)
        .values(some as never)
        .execute();
    }
  });
}
