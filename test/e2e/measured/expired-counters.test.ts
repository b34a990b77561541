// The memory of expired counters is freed without being asked for, also behind idle counters that live for a day.

import { afterAll, expect, it } from "vitest";
import { keysFrom, spray } from "../../fixtures/clients/key-spray.ts";
import { ask } from "../../fixtures/clients/requests.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { until } from "../../fixtures/until.ts";

const dictBytes = 512 * 1024;
const idleKeys = [...keysFrom("idle", 20)];

const perKey = (name: string, window: string) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-key"],
  limits: [{ algorithm: "token-bucket", quota: 1, window }],
});

let gateway: LoneGateway;
afterAll(() => gateway?.stop());

it("frees expired counters between idle ones, which stay, so that new keys have counters of their own again", async () => {
  gateway = await LoneGateway.start({
    policies: [perKey("day", "1d"), perKey("seconds", "6s")],
    edit: (config) =>
      config
        .replace("sluice_counters 64m", `sluice_counters ${dictBytes / 1024}k`)
        .replace(
          "location / {",
          "location / { access_by_lua_block { sluice.access() } return 204; }\n location /unused {",
        )
        .replace("return 204;", "content_by_lua_block { ngx.exit(204) }"),
  });
  // All of this takes less time than the window, also on a busy machine.
  for (const [i, key] of idleKeys.entries()) {
    expect((await ask(`${gateway.url}/day`, { headers: { "x-key": key } })).status).toBe(204);
    await spray(`${gateway.url}/seconds`, keysFrom(`among-${i}-`, 300), { connections: 1 });
  }
  const freeBytes = () => gateway.metric("sluice_counters_free_bytes");
  expect(await freeBytes()).toBeLessThan(dictBytes / 4);
  await until("what has expired is free", async () => (await freeBytes()) >= dictBytes / 4);
  const overflowed = async () =>
    (await ask(`${gateway.privateUrl}/sluice/metrics`)).body.match(/^sluice_overflow_decisions.*/gm);
  const before = await overflowed();
  for (const key of keysFrom("new", 100)) {
    expect((await ask(`${gateway.url}/day`, { headers: { "x-key": key } })).status).toBe(204);
  }
  expect(await overflowed()).toEqual(before);
  for (const key of idleKeys) {
    expect((await ask(`${gateway.url}/day`, { headers: { "x-key": key } })).status, key).toBe(429);
  }
});
