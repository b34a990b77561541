import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { adminToken, onePerSecond, startControlPlane, temporaryDir } from "./control-plane-under-test.ts";

it("a database of the first schema keeps its policies, history and tokens, which get ids", async () => {
  const SLUICE_DATA_DIR = await temporaryDir();
  const first = await startControlPlane({ SLUICE_DATA_DIR });
  await first.call("PUT", "/apps/default/policies/books", { body: onePerSecond });
  await first.stop();
  const database = new DatabaseSync(join(SLUICE_DATA_DIR, "sluice.db"));
  database.exec(`
    drop table usage; drop table audit; drop index revisions_app;
    alter table meta drop column proof_key; alter table apps drop column bounds;
    alter table policies drop column bytes; alter table policies drop column steps;
    drop table bans; drop table templates;
    drop index tokens_id; alter table tokens drop column id;
    alter table revisions drop column subject;
    alter table apps drop column realm;
    delete from kysely_migration where name >= '0002';
    insert into tokens (hash, name, role, created_at, last_four) values ('00', 'an old one', 'admin', 5, '1234');
  `);
  database.close();

  const { call } = await startControlPlane({ SLUICE_DATA_DIR });
  expect((await call("GET", "/apps/default/policies/books", { token: adminToken })).status).toBe(200);
  expect((await call("GET", "/revisions")).body.revisions).toMatchObject([{ n: 1, action: "create-policy" }]);
  const [old] = (await call("GET", "/tokens")).body.tokens;
  expect(old).toMatchObject({ name: "an old one", lastFour: "1234" });
  expect((await call("DELETE", `/tokens/${old.id}`)).status).toBe(200);
  const bytes = Buffer.byteLength(JSON.stringify({ name: "books", ...onePerSecond }));
  expect((await call("GET", "/apps/default")).body.used).toMatchObject({ policies: 1, bytes, steps: 0 });
});
