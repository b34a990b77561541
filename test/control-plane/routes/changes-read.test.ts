// Tests what a control plane reads of the history that another one has written, on each database: what has changed since it read last.

import { expect, it } from "vitest";
import { readChanges, readHead } from "../../../control-plane/src/storage/state.ts";
import { onePerSecond, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

it("an app that was deleted and made again on the way was deleted, and so was a policy; others were not", async () => {
  const { app, call } = await startControlPlane();
  const ask = async (method: string, path: string, body?: object) => {
    const { status } = await call(method, path, body === undefined ? {} : { body });
    expect(status, `${method} ${path}`).toBeLessThan(300);
  };
  await ask("PUT", "/apps/shop");
  await ask("PUT", "/apps/crm");
  await ask("PUT", "/apps/default/policies/books", onePerSecond);
  const before = await readHead(app.database);
  await ask("DELETE", "/apps/shop");
  await ask("PUT", "/apps/shop");
  await ask("PUT", "/apps/crm", { realm: {} });
  await ask("DELETE", "/apps/default/policies/books");
  await ask("PUT", "/apps/default/policies/books", onePerSecond);
  const changes = await readChanges(app.database, before, app.now());
  const deleted = (of: readonly { name: string; wasDeleted: boolean }[] | undefined) =>
    of?.map(({ name, wasDeleted }) => `${name} ${wasDeleted}`).sort();
  expect(deleted(changes?.apps)).toEqual(["crm false", "shop true"]);
  expect(deleted(changes?.policies)).toEqual(["books true"]);
  expect(changes?.apps.every((one) => one.app !== undefined)).toBe(true);
});
