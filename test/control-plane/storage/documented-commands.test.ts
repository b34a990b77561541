// docs/operations.md's commands about databases, run as they stand there: set-up, backup, restore, moving, and rolling back an upgrade.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { onePerSecond, startControlPlane, temporaryDir } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { MariadbServer } from "../../fixtures/servers/mariadb-server.ts";
import { PostgresServer } from "../../fixtures/servers/postgres-server.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";

const run = promisify(execFile);
const project = resolve(import.meta.dirname, "../../..");
const page = readFileSync(join(project, "docs/operations.md"), "utf8");

/** @returns the commands below a heading, by code block */
function commandsOf(heading: string): string[] {
  const [, section = ""] = new RegExp(`^### ${heading}$(.*?)^##+ `, "ms").exec(page) ?? [];
  const blocks = [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, commands]) => commands as string);
  if (blocks.length === 0) throw new Error(`docs/operations.md: expected commands below "${heading}", got none`);
  return blocks;
}

type Environment = Record<string, string>;

async function runCommands(commands: string | undefined, cwd: string, env: Environment): Promise<void> {
  const path = process.env["PATH"] ?? "";
  await run("bash", ["-e", "-c", commands ?? ""], { cwd, env: { PATH: path, HOME: cwd, ...env } });
}

interface Place {
  readonly env: Environment;
  /** What the control plane gets. */
  readonly settings: Environment;
  /** Adds what a later version would add to the schema. */
  upgrade(): Promise<void>;
}

const laterVersion =
  "create table later_things (name varchar(10)); insert into kysely_migration (name, timestamp) values ('9999-later', '2020-01-01')";

async function onServer(server: DatabaseServer, setUp: string, env: Environment, scheme: string): Promise<Place> {
  onFinished(() => server.remove());
  const cwd = await temporaryDir();
  for (const commands of commandsOf(setUp)) await runCommands(commands, cwd, env);
  const SLUICE_DATABASE_URL = `${scheme}://sluice:a-long-password@127.0.0.1:${server.port}/sluice`;
  return {
    env: { ...env, SLUICE_DATABASE_URL },
    settings: { SLUICE_DATABASE_URL },
    upgrade: async () => void (await server.query(laterVersion, "sluice")),
  };
}

const places: Readonly<Record<string, () => Promise<Place>>> = {
  SQLite: async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    return {
      env: { SLUICE_DATA_DIR },
      settings: { SLUICE_DATA_DIR },
      upgrade: async () => void (await run("sqlite3", [join(SLUICE_DATA_DIR, "sluice.db"), laterVersion])),
    };
  },
  PostgreSQL: async () => {
    const server = await PostgresServer.start({ hasty: true });
    const env = { PGHOST: "127.0.0.1", PGPORT: `${server.port}`, PGUSER: "postgres" };
    return onServer(server, "Set up PostgreSQL", env, "postgres");
  },
  "MySQL or MariaDB": async () => {
    const server = await MariadbServer.start({ hasty: true });
    const HOME = await temporaryDir();
    const client = ["[client]", "host=127.0.0.1", `port=${server.port}`, "user=root"].join("\n");
    await writeFile(join(HOME, ".my.cnf"), `${client}\n`);
    const place = await onServer(server, "Set up MySQL or MariaDB", { HOME }, "mysql");
    return { ...place, env: { ...place.env, MYSQL_PWD: "a-long-password" } };
  },
};

describe("docs/operations.md's commands work", () => {
  it.each(Object.entries(places))(
    "with %s: set-up, backup, an upgrade that the former version refuses, restore",
    async (name, makePlace) => {
      const { env, settings, upgrade } = await makePlace();
      const [backUp, restore, ...more] = commandsOf(`Backup of ${name}`);
      expect(more).toEqual([]);
      const cwd = await temporaryDir();

      const plane = await startControlPlane(settings);
      expect((await plane.call("PUT", "/apps/default/policies/before", { body: onePerSecond })).status).toBe(201);
      await runCommands(backUp, cwd, env);
      expect((await plane.call("PUT", "/apps/default/policies/after", { body: onePerSecond })).status).toBe(201);
      const gateway = await connectGateway(plane, "steady");
      const held = await gateway.next("snapshot");
      expect(held.policies).toHaveLength(2);
      await plane.stop();

      await upgrade();
      await expect(startControlPlane(settings)).rejects.toThrow(/which a later version has migrated/);

      await runCommands(restore, cwd, env);
      const restored = await startControlPlane(settings);
      const { policies } = (await restored.call("GET", "/apps/default/policies")).body;
      expect(policies).toMatchObject([{ name: "before" }]);
      const { epoch, revision, proof } = held;
      const back = await connectGateway(restored, "steady", { epoch, revision, proof });
      const pushed = await back.next("snapshot");
      expect(pushed.epoch).not.toBe(epoch);
      expect(pushed.policies).toHaveLength(1);
      expect((await restored.call("PUT", "/apps/default/policies/more", { body: onePerSecond })).status).toBe(201);
    },
    120_000,
  );

  it("to move everything to another database", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const first = await startControlPlane({ SLUICE_DATA_DIR });
    await first.call("PUT", "/apps/default/policies/books", { body: onePerSecond });
    await first.stop();
    const target = await temporaryDir();
    const [commands] = commandsOf("Move to another database");
    const NEW_DATABASE_URL = `sqlite:${target}/sluice.db`;
    const file = join(await temporaryDir(), "sluice.jsonl");
    const own = (commands ?? "").replaceAll("sluice.jsonl", file);
    await runCommands(own, project, { SLUICE_DATA_DIR, NEW_DATABASE_URL, HOME: target });
    const moved = await startControlPlane({ SLUICE_DATA_DIR: target });
    expect((await moved.call("GET", "/apps/default/policies")).body.policies).toMatchObject([{ name: "books" }]);
  });
});
