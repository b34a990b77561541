// If the lua-resty libraries have OpenResty's names, those are used. key-lock.test.ts shows when lua-resty-lock is used.

import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { ask, askAtOnce } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { nginxUnderTest } from "../fixtures/servers/nginx-under-test.ts";
import { System } from "../fixtures/servers/system.ts";

const standIns = resolve(import.meta.dirname, "../fixtures/openresty");
/** The real OpenResty looks among its own libraries first. */
const LUA_PATH = `${standIns}/?.lua;;`;

let system: System;
beforeAll(async () => {
  system = await System.start({ workers: 4, redis: true, env: { LUA_PATH } });
});
afterAll(() => system?.stop());

it("counts exactly with lua-resty-lock, by several limits at once in four workers", async () => {
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

it("loads OpenResty's own libraries if it runs in OpenResty, and elsewhere those with its names", async () => {
  const tell = `
      for _, name in ipairs({ "resty.redis", "resty.websocket.client", "resty.lock" }) do
        ngx.say(package.loaded[name] ~= nil)
      end
      ngx.say(debug.getinfo(package.loaded["resty.lock"].new).source)`;
  const gateway = await LoneGateway.start({
    policies: [],
    env: { LUA_PATH },
    edit: (config) =>
      config.replace("location / {", `location = /loaded { content_by_lua_block { ${tell} } } location / {`),
  });
  onTestFinished(() => gateway.stop());
  const [redis, webSocket, lock, lockFile] = (await ask(`${gateway.url}/loaded`)).body.split("\n");
  expect([redis, webSocket, lock]).toEqual(["true", "true", "true"]);
  const isOpenResty = nginxUnderTest().modules.length === 0;
  expect(lockFile).toContain("/resty/lock.lua");
  expect(lockFile?.startsWith(`@${standIns}/`)).toBe(!isOpenResty);
});

it("connects to Redis through resty.redis", async () => {
  await system.put({
    name: "fleet",
    scope: "cluster",
    match: { paths: ["/fleet"] },
    limits: [{ algorithm: "fixed-window", quota: 30, window: "366d" }],
  });
  expect(await askAtOnce([`${system.gateway.url}/fleet`], 100)).toEqual({ 200: 30, 429: 70 });
  expect(await system.redis?.command("KEYS", "sluice:s3:*")).toHaveLength(1);
});
