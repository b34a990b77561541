// Tests the check API where something is missing, and behind auth_request of another nginx.

import { afterEach, expect, it } from "vitest";
import { auth, callerOf, check } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { ControlPlaneDouble } from "../fixtures/servers/control-plane-double.ts";
import { freePort, freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { SetClock } from "../fixtures/servers/set-clock.ts";

const shop = { app: "default", token: "a-token-of-the-shop" };
const fleet = (onStoreFailure: string) => ({
  name: onStoreFailure,
  scope: "cluster",
  onStoreFailure,
  match: { paths: ["/elsewhere"] },
  key: ["header:x-key"],
  limits: [{ algorithm: "fixed-window", quota: 10, window: "366d" }],
});
const policies = ["local", "allow", "deny"].map(fleet);

let gateway: LoneGateway;
let control: ControlPlaneDouble | undefined;
let redis: RedisServer | undefined;
afterEach(async () => {
  await gateway?.stop();
  await control?.stop();
  control = undefined;
  await redis?.stop();
  redis = undefined;
});

it("counts a gateway that the control plane has lost from sight in the shares for another half minute: it may still run", async () => {
  const [controlPort, closedPort] = (await freePorts(2)) as [number, number];
  const seconds = 1_800_000_000;
  const clock = new SetClock(seconds);
  control = new ControlPlaneDouble(controlPort);
  try {
    gateway = await LoneGateway.start({
      policies,
      clock,
      callers: [callerOf(shop)],
      env: {
        SLUICE_REDIS_URL: `redis://127.0.0.1:${closedPort}`,
        SLUICE_CONTROL_URL: `http://127.0.0.1:${controlPort}`,
      },
    });
    const limitOfShareAmong = async (gateways: number) => {
      const documents = policies.map((document) => ({ app: "default", document }));
      await control?.push(documents, [callerOf(shop)], gateways);
      return limitOfShare();
    };
    const limitOfShare = async () =>
      (await check(gateway.privateUrl, shop, [{ policy: "local", key: ["a"] }])).results[0]?.["limit"];

    expect(await limitOfShareAmong(2)).toBe(5);
    expect(await limitOfShareAmong(1)).toBe(5);
    clock.set(seconds + 29);
    expect(await limitOfShare()).toBe(5);
    clock.set(seconds + 31);
    expect(await limitOfShare()).toBe(10);
    expect(await limitOfShareAmong(5), "one more is believed at once").toBe(2);
  } finally {
    clock.remove();
  }
});

it("follows onStoreFailure while Redis fails, uses the node's share if it is local, and still charges all checks or none", async () => {
  const [controlPort, closedPort] = (await freePorts(2)) as [number, number];
  control = new ControlPlaneDouble(controlPort);
  gateway = await LoneGateway.start({
    policies,
    callers: [callerOf(shop)],
    env: {
      SLUICE_REDIS_URL: `redis://127.0.0.1:${closedPort}`,
      SLUICE_CONTROL_URL: `http://127.0.0.1:${controlPort}`,
    },
  });
  // Two gateways share ten.
  await control.push(
    policies.map((document) => ({ app: "default", document })),
    [callerOf(shop)],
    2,
  );
  const asked = async (policy: string, cost: number, key = "a") =>
    (await check(gateway.privateUrl, shop, [{ policy, key: [key], cost }])).results[0];

  expect(await asked("allow", 11)).toEqual({ policy: "allow", allowed: true, reason: "undecided" });
  expect(await asked("deny", 1)).toEqual({ policy: "deny", allowed: false, reason: "undecided" });
  expect(await asked("local", 3)).toMatchObject({ allowed: true, limit: 5, remaining: 2 });
  expect(await asked("local", 3)).toMatchObject({ allowed: false, remaining: 2 });
  expect(await asked("local", 11), "what the policy never holds, its share does not").toMatchObject({
    allowed: false,
    retryAfter: null,
  });
  const mixed = await check(gateway.privateUrl, shop, [
    { policy: "local", key: ["a"], cost: 2 },
    { policy: "deny", key: ["a"] },
  ]);
  expect(mixed).toMatchObject({ allowed: false, results: [{ allowed: true }, { allowed: false }] });
  expect(await asked("local", 2)).toMatchObject({ allowed: true, remaining: 0 });

  const denied = await auth(gateway.privateUrl, shop, "policy=deny&key=a");
  expect([denied.status, denied.headers["retry-after"]]).toEqual([429, "1"]);
  expect((await auth(gateway.privateUrl, shop, "policy=allow&key=a")).status).toBe(204);
});

it("decides the same way if no Redis is configured at all", async () => {
  gateway = await LoneGateway.start({ policies, callers: [callerOf(shop)], env: { SLUICE_REDIS_URL: "" } });
  const { results } = await check(gateway.privateUrl, shop, [{ policy: "local", key: ["a"], cost: 4 }]);
  expect(results).toMatchObject([{ allowed: true, limit: 10, remaining: 6 }]);
});

it("answers 401 if the snapshot has no callers", async () => {
  gateway = await LoneGateway.start({ policies });
  expect((await auth(gateway.privateUrl, shop, "policy=allow&key=a")).status).toBe(401);
});

it("delays nobody for a policy in shadow mode", async () => {
  redis = new RedisServer(await freePort());
  await redis.start();
  const shaped = (scope: string) => ({
    name: scope,
    scope,
    mode: "shadow",
    match: { paths: ["/elsewhere"] },
    limits: [{ algorithm: "leaky-bucket", quota: 1, window: "1m", burst: 5 }],
  });
  gateway = await LoneGateway.start({
    policies: ["node", "cluster"].map(shaped),
    callers: [callerOf(shop)],
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "5000" },
  });
  const begun = performance.now();
  for (const policy of ["node", "node", "cluster", "cluster"]) {
    expect((await auth(gateway.privateUrl, shop, `policy=${policy}`)).status).toBe(204);
  }
  // If it delayed them, two of them would wait for a minute.
  expect(performance.now() - begun).toBeLessThan(50_000);
});

it("limits another nginx by auth_request as docs/operations.md shows, and delays its requests to their turn", async () => {
  const paced = {
    name: "paced",
    match: { paths: ["/elsewhere"] },
    key: ["ip"],
    limits: [{ algorithm: "leaky-bucket", quota: 5, window: "1s", burst: 2 }],
  };
  const limited = {
    name: "limited",
    match: { paths: ["/elsewhere"] },
    key: ["ip"],
    limits: [{ algorithm: "token-bucket", quota: 1, window: "1d", burst: 1 }],
  };
  const locations = (port: number) =>
    ["paced", "limited"].map(
      (name) => `
    location /${name} {
      auth_request /sluice-${name};
      auth_request_set $sluice_status $upstream_status;
      auth_request_set $sluice_retry_after $upstream_http_retry_after;
      error_page 500 = @sluice_refused;
      try_files /nowhere @pass;
    }
    location = /sluice-${name} {
      internal;
      proxy_pass http://127.0.0.1:${port}/sluice/v1/auth?policy=${name}&key=$remote_addr;
      proxy_set_header Authorization "Bearer ${shop.token}";
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
    }`,
    );
  gateway = await LoneGateway.start({
    policies: [paced, limited],
    callers: [callerOf(shop)],
    edit: (config) => {
      const port = Number(/upstream service \{\s*server 127\.0\.0\.1:(\d+)/.exec(config)?.[1]);
      return config.replace(
        "location / {",
        `${locations(port).join("")}
    location @pass { return 200; }
    location @sluice_refused {
      add_header Retry-After $sluice_retry_after always;
      if ($sluice_status = 429) { return 429; }
      return 500;
    }
    location / {`,
      );
    },
  });
  expect((await ask(`${gateway.url}/limited`)).status).toBe(200);
  const refused = await ask(`${gateway.url}/limited`);
  expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "86400"]);
  const startedAtMs = performance.now();
  for (let i = 0; i < 3; i++) expect((await ask(`${gateway.url}/paced`)).status).toBe(200);
  expect(performance.now() - startedAtMs).toBeGreaterThan(350);
});
