// Where the lua-resty libraries bear OpenResty's names, those are taken. key-lock.test.ts shows when lua-resty-lock is.

import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { askAtOnce } from "../fixtures/requests.ts";
import { System } from "../fixtures/system.ts";

let system: System;
beforeAll(async () => {
  const modules = resolve(import.meta.dirname, "../fixtures/openresty");
  system = await System.start({ workers: 4, redis: true, env: { LUA_PATH: `${modules}/?.lua;;` } });
});
afterAll(() => system?.stop());

it("counts exactly under lua-resty-lock, several limits at once among four workers", async () => {
  await system.put({
    name: "locked",
    match: { paths: ["/locked"] },
    limits: [
      { name: "few", algorithm: "token-bucket", quota: 1, window: "1h", burst: 40 },
      { name: "many", algorithm: "fixed-window", quota: 1000, window: "366d" },
    ],
  });
  expect(await askAtOnce([`${system.gateway.url}/locked`], 400)).toEqual({ 200: 40, 429: 360 });
});

it("reaches Redis by the name resty.redis", async () => {
  await system.put({
    name: "fleet",
    scope: "cluster",
    match: { paths: ["/fleet"] },
    limits: [{ algorithm: "fixed-window", quota: 30, window: "366d" }],
  });
  expect(await askAtOnce([`${system.gateway.url}/fleet`], 100)).toEqual({ 200: 30, 429: 70 });
  expect(await system.redis?.command("KEYS", "sluice:s3:*")).toHaveLength(1);
});
