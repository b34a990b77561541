import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import {
  adminToken,
  onePerSecond,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { firstSchema } from "./older-schemas.ts";

it("a database of the first schema keeps its policies, history and tokens, which get ids", async () => {
  const SLUICE_DATA_DIR = await temporaryDir();
  const first = await startControlPlane({ SLUICE_DATA_DIR });
  await first.call("PUT", "/apps/default/policies/books", { body: onePerSecond });
  await first.stop();
  const database = new DatabaseSync(join(SLUICE_DATA_DIR, "sluice.db"));
  database.exec(`
    ${firstSchema}
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
