// Fills the database of a control plane that does not run yet with policies, faster than by its API.
import { buildControlPlane } from "../../control-plane/src/app.ts";
import { readConfiguration } from "../../control-plane/src/configuration.ts";
import type { Database } from "../../control-plane/src/storage/tables.ts";
import { addUsage } from "../../control-plane/src/storage/usage.ts";
import { SetupError } from "../../launch/step.mjs";
import { insert } from "../lists/rows.ts";

/** The app of all policies: the operator's own, whose bounds are those of all apps together. */
export const app = "default";
/** Of policies that are filled in: no token has this name. */
const owner = "bench: filled in";
/** The policy that is edited. The probe's requests meet it, and no others do. */
export const edited = "p0000000";
export const probePath = "/probe";

/** A document whose limit says which edit it is of: each is stored as a change. */
export function editedDocument(quota: number): object {
  return {
    name: edited,
    description: "As long as policies are that somebody has written by hand and explained a little.",
    match: { paths: [probePath] },
    limits: [{ name: "burst", algorithm: "fixed-window", quota, window: "1s" }],
  };
}

export function nameOf(i: number): string {
  return `p${String(i).padStart(7, "0")}`;
}

/** Ten policies for each host, each with 440 bytes. The first one is the edited one. */
export function documentOf(i: number): object {
  if (i === 0) return editedDocument(firstQuota);
  return {
    name: nameOf(i),
    description: "As long as policies are that somebody has written by hand and explained a little.",
    match: { hosts: [`h${Math.floor(i / 10)}.example`], paths: [`/sluice/${i % 10}`, `/sluice/${i % 10}/*`] },
    key: ["ip"],
    limits: [
      { name: "burst", algorithm: "token-bucket", quota: 10, window: "1s", burst: 100_000 },
      { name: "daily", algorithm: "fixed-window", quota: 1_000_000_000, window: "1d" },
    ],
  };
}

/** The edited policy's limit before the first edit: the probe must never be refused. */
export const firstQuota = 1_000_000;

/** @param environment of the control plane @throws SetupError if somebody else's policies are there */
export async function fill(environment: NodeJS.ProcessEnv, policies: number): Promise<void> {
  const { app: controlPlane } = await buildControlPlane(readConfiguration(environment));
  try {
    await fillDatabase(controlPlane.database, policies);
  } finally {
    await controlPlane.close();
  }
}

async function fillDatabase(database: Database, policies: number): Promise<void> {
  const owners = await database.selectFrom("policies").select("owner").distinct().execute();
  const revisions = await database.selectFrom("revisions").select("number").limit(1).execute();
  const isOurs = owners.length === 0 ? revisions.length === 0 : owners.every((row) => row.owner === owner);
  if (!isOurs) throw new SetupError("--database: expected an empty database, got one with policies or with a history");
  // What an earlier number of policies has left in a database that is not ours to delete.
  await database.deleteFrom("policies").execute();
  await database.deleteFrom("revisions").execute();
  await database.deleteFrom("usage").execute();
  const { revision: before } = await database.selectFrom("meta").select("revision").executeTakeFirstOrThrow();
  const revision = Number(before) + 1;
  let bytes = 0;
  await insert(database, "policies", policies, (i) => {
    const document = JSON.stringify(documentOf(i));
    bytes += document.length;
    return {
      app,
      name: nameOf(i),
      document,
      revision,
      updated_at: Date.now(),
      owner,
      bytes: document.length,
      steps: 0,
    };
  });
  await database.transaction().execute((transaction) => addUsage(transaction, app, { policies, bytes }));
  await database.updateTable("meta").set({ revision }).where("id", "=", 1).execute();
}
