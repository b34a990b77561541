// The migrations that add the sums of what apps use, the audit entries and the key of proofs. They count what is stored
// already.

import { randomBytes } from "node:crypto";
import { type CreateTableBuilder, type Kysely, sql } from "kysely";
import { type PolicySize, policySize } from "../../bounds/policy-size.ts";
import { secretPartsOf, textOfParts } from "../../secrets/secret-parts.ts";
import { resolveTemplates, type Templates } from "../../templates/resolve-templates.ts";
import { banBytes, banFrom } from "../bans.ts";
import { bytesOfEntry } from "../history-retention.ts";
import type { Tables, UsageSums } from "../tables.ts";
import { emptyRow } from "../usage.ts";
import { Schema } from "./columns.ts";

const pageSize = 500;
const sums = [
  "policies",
  "bytes",
  "steps",
  "templates",
  "template_bytes",
  "bans",
  "ban_bytes",
  "tokens",
  "callers",
  "history_entries",
  "history_bytes",
  "audit_bytes",
] as const;

export async function addBoundsAndAudit(database: Kysely<Tables>): Promise<void> {
  await changeTables(database);
  await database
    .updateTable("meta")
    .set({ proof_key: randomBytes(32).toString("hex") })
    .where("proof_key", "is", null)
    .execute();
  // Sums of an earlier run of this migration that did not end.
  await database.deleteFrom("usage").execute();
  const rows = new Map<string, UsageSums>();
  const rowOf = (app: string): UsageSums => {
    const row = rows.get(app) ?? emptyRow(app);
    rows.set(app, row);
    return row;
  };
  await countPolicies(database, rowOf);
  await countBans(database, rowOf);
  for (const { app, document } of await database.selectFrom("templates").select(["app", "document"]).execute()) {
    rowOf(app).templates += 1;
    rowOf(app).template_bytes += Buffer.byteLength(document);
  }
  for (const { app, role } of await database.selectFrom("tokens").select(["app", "role"]).execute()) {
    if (app === null) continue;
    rowOf(app).tokens += 1;
    if (role === "caller") rowOf(app).callers += 1;
  }
  const total = emptyRow("");
  for (const row of rows.values()) for (const name of sums) total[name] += row[name];
  const history = await database
    .selectFrom("revisions")
    .select((row) => [
      "app",
      row.fn.countAll<number>().as("entries"),
      sql<number>`sum(coalesce(length(${sql.ref("before")}), 0) + coalesce(length(${sql.ref("after")}), 0))`.as(
        "bytes",
      ),
    ])
    .groupBy("app")
    .execute();
  rows.set("", total);
  for (const { app, entries, bytes } of history) {
    rowOf(app).history_entries = Number(entries);
    rowOf(app).history_bytes = Number(bytes) + Number(entries) * bytesOfEntry;
  }
  for (const row of rows.values()) await database.insertInto("usage").values(row).execute();
}

async function changeTables(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  const { longText } = schema;
  await schema.createTable("usage", (table) =>
    sums.reduce(
      (made, name) => made.addColumn(name, "bigint", (column) => column.notNull()),
      table.addColumn("app", schema.name(63), (column) => column.primaryKey()) as CreateTableBuilder<string, string>,
    ),
  );
  await schema.createTable("audit", (table) =>
    table
      .addColumn("id", schema.name(36), (column) => column.primaryKey())
      .addColumn("at", "bigint", (column) => column.notNull())
      .addColumn("who", "varchar(255)", (column) => column.notNull())
      .addColumn("source", "varchar(64)")
      .addColumn("action", "varchar(63)", (column) => column.notNull())
      .addColumn("app", schema.name(63), (column) => column.notNull())
      .addColumn("subject", longText)
      .addColumn("before", longText)
      .addColumn("after", longText)
      .addColumn("bytes", "bigint", (column) => column.notNull()),
  );
  await schema.createIndex("audit", "audit_app", ["app", "action", "id"]);
  await schema.createIndex("audit", "audit_at", ["at"]);
  await schema.createIndex("revisions", "revisions_app", ["app", "number"]);
  await schema.createIndex("bans", "bans_until", ["until_at"]);
  await schema.createIndex("bans", schema.indexBesideKey("bans_app"), ["app", "policy"]);
  await schema.addColumn("meta", "proof_key", "varchar(64)");
  await schema.addColumn("apps", "bounds", longText);
  for (const name of ["bytes", "steps"]) {
    await schema.addColumn("policies", name, "bigint", (column) => column.notNull().defaultTo(0));
  }
  await schema.addColumn("bans", "bytes", "bigint", (column) => column.notNull().defaultTo(0));
}

/** Counts the limits of policies and the kinds of keys, and notes them beside the policies. */
export async function addLimitsAndKinds(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  for (const table of ["policies", "usage"] as const) {
    for (const name of ["limits", "kinds"]) {
      await schema.addColumn(table, name, "bigint", (column) => column.notNull().defaultTo(0));
    }
  }
  const sums = new Map<string, { limits: number; kinds: number }>();
  await eachPolicy(database, async (app, name, { limits, kinds }) => {
    for (const whose of ["", app]) {
      const sum = sums.get(whose) ?? { limits: 0, kinds: 0 };
      sums.set(whose, { limits: sum.limits + limits, kinds: sum.kinds + kinds });
    }
    await database
      .updateTable("policies")
      .set({ limits, kinds })
      .where("app", "=", app)
      .where("name", "=", name)
      .execute();
  });
  for (const [app, sum] of sums) await database.updateTable("usage").set(sum).where("app", "=", app).execute();
}

/** Notes which parts of keys may hold credentials beside policies, and beside apps whether ids of consumers may be some. */
export async function addSecretParts(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  const flags = [
    ["policies", "hiding"],
    ["usage", "hiding"],
    ["usage", "hidden_ids"],
  ] as const;
  for (const [table, name] of flags) {
    await schema.addColumn(table, name, "bigint", (column) => column.notNull().defaultTo(0));
  }
  for (const table of ["policies", "bans"] as const) await schema.addColumn(table, "secret_parts", "varchar(63)");
  const sums = new Map<string, number>();
  await eachPolicy(database, async (app, name, { hiding }, document) => {
    const parts = secretPartsOf(document);
    if (parts.length === 0) return;
    for (const whose of ["", app]) sums.set(whose, (sums.get(whose) ?? 0) + hiding);
    await database
      .updateTable("policies")
      .set({ hiding, secret_parts: textOfParts(parts) })
      .where("app", "=", app)
      .where("name", "=", name)
      .execute();
  });
  for (const [app, hiding] of sums) {
    const hidden_ids = Number(app !== "" && hiding > 0);
    await database.updateTable("usage").set({ hiding, hidden_ids }).where("app", "=", app).execute();
  }
  await schema.putTextsLast();
}

async function countPolicies(database: Kysely<Tables>, rowOf: (app: string) => UsageSums): Promise<void> {
  await eachPolicy(database, async (app, name, { bytes, steps }) => {
    rowOf(app).policies += 1;
    rowOf(app).bytes += bytes;
    rowOf(app).steps += steps;
    await database
      .updateTable("policies")
      .set({ bytes, steps })
      .where("app", "=", app)
      .where("name", "=", name)
      .execute();
  });
}

async function eachPolicy(
  database: Kysely<Tables>,
  act: (app: string, name: string, size: PolicySize, document: unknown) => Promise<void>,
): Promise<void> {
  const templates = new Map<string, Map<string, Record<string, unknown>>>();
  for (const { app, name, document } of await database.selectFrom("templates").selectAll().execute()) {
    templates.set(app, (templates.get(app) ?? new Map()).set(name, JSON.parse(document)));
  }
  const none: Templates = new Map();
  for (let offset = 0; ; offset += pageSize) {
    const page = await database
      .selectFrom("policies")
      .select(["app", "name", "document"])
      .orderBy("app")
      .orderBy("name")
      .limit(pageSize)
      .offset(offset)
      .execute();
    for (const { app, name, document: text } of page) {
      const { document } = resolveTemplates(JSON.parse(text), templates.get(app) ?? none);
      await act(app, name, policySize(document), document);
    }
    if (page.length < pageSize) return;
  }
}

async function countBans(database: Kysely<Tables>, rowOf: (app: string) => UsageSums): Promise<void> {
  for (const row of await database.selectFrom("bans").selectAll().execute()) {
    const bytes = banBytes(banFrom(row));
    rowOf(row.app).bans += 1;
    rowOf(row.app).ban_bytes += bytes;
    await database.updateTable("bans").set({ bytes }).where("id", "=", row.id).execute();
  }
}
