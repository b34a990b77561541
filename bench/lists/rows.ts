// Fills a control plane's database: an app with many rows in every list, and a small app beside it, whose owner must not wait for the
// rows of the other one.
import type { Database, Tables } from "../../control-plane/src/storage/tables.ts";
import { hashToken } from "../../control-plane/src/tokens/token.ts";

export const apps = { large: "shop", small: "kiosk" } as const;
/** By app: the token of an owner. */
export const ownerTokens = { shop: "bench-owner-of-shop", kiosk: "bench-owner-of-kiosk" } as const;

const atOnce = 200;
const longMs = 366 * 86_400_000;

/** Row i of n is of the small app once in a thousand, of the large one otherwise. */
export async function fill(database: Database, rows: number, nowMs: number): Promise<void> {
  const appOf = (i: number) => (i % 1_000 === 500 ? apps.small : apps.large);
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
  await insert(database, "apps", 2, (i) => ({ name: i === 0 ? apps.large : apps.small, ...app }));
  const token = {
    role: "owner",
    created_at: nowMs,
    expires_at: null,
    last_four: "last",
    member: null,
    last_used_at: null,
  };
  await insert(database, "tokens", 2, (i) => {
    const name = i === 0 ? apps.large : apps.small;
    return { ...token, id: id(-2 + i), hash: hashToken(ownerTokens[name]), name: "owner", app: name };
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
  const change = { source: "127.0.0.1", before: document, after: document };
  await insert(database, "revisions", rows, (i) => {
    const what = { action: "update-policy", app: appOf(i), policy: nameOf("policy", i), subject: null };
    return { number: i + 1, at: at(i), who: `person-${i % 100}`, ...what, ...change };
  });
  await insert(database, "audit", rows, (i) => {
    const what = { action: "reset-counter", app: appOf(i), subject: nameOf("policy", i), bytes: 100 };
    return { id: id(i), at: at(i), who: `person-${i % 100}`, ...what, ...change };
  });
  await database.updateTable("meta").set({ revision: rows }).where("id", "=", 1).execute();
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
