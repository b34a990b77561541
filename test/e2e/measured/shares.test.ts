// While Redis is unreachable, a gateway limits by its share. These tests show it with real gateways, a Redis that hangs, and a
// restart; all else is in test/gateway/stores/share/shares_spec.lua.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { ask } from "../../fixtures/clients/requests.ts";
import { admitted, excess, load } from "../../fixtures/clients/steady-load.ts";
import { ControlPlaneDouble } from "../../fixtures/servers/control-plane-double.ts";
import { freePort, freePorts } from "../../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { until } from "../../fixtures/until.ts";

/** Units per second, and units of the burst. A share that started anew would admit one more second's worth. */
const perSecond = 100;
const burst = 100;
/** Covers the steps of nginx's clock, which are 1 ms, and what Redis charged although its reply never arrived. */
const tolerance = 10;
const bucket = { algorithm: "token-bucket", quota: perSecond, window: "1s", burst };

const policy = (name: string, more: object) => ({
  name,
  scope: "cluster",
  match: { paths: [`/${name}`] },
  limits: [bucket],
  ...more,
});
const denying = { consistency: "leased", onStoreFailure: "deny", onLimit: { status: 503 } };

describe("while Redis is unreachable,", () => {
  it("a share admits what refills since Redis last replied, a lease is spent, and Redis decides again afterwards", async () => {
    const redis = new RedisServer(await freePort());
    await redis.start();
    let gateway: LoneGateway | undefined;
    try {
      gateway = await LoneGateway.start({
        policies: [
          policy("exact", { consistency: "exact" }),
          policy("leased", { consistency: "leased" }),
          policy("denied", denying),
        ],
        env: { SLUICE_REDIS_URL: redis.url },
      });
      const at = (name: string) => [`${gateway?.url}/${name}`];
      const hung = sleep(1200).then(() => redis.hang());
      const loads = await Promise.all([
        load(at("exact"), 300, 3),
        load(at("leased"), 300, 3),
        load(at("denied"), 0.6 * perSecond, 3),
      ]);
      await hung;
      for (const { admissions, startedMs } of loads.slice(0, 2)) {
        expect(excess(admissions, perSecond, burst)).toBeLessThanOrEqual(tolerance);
        const during = admissions.filter(({ sentAtMs }) => sentAtMs >= startedMs + 1700).length / 1.3;
        expect(during).toBeGreaterThanOrEqual(0.9 * perSecond);
        expect(during).toBeLessThanOrEqual(1.1 * perSecond);
      }
      const { admissions, statuses, startedMs } = loads[2];
      expect(admissions.filter(({ sentAtMs }) => sentAtMs >= startedMs + 1200).length).toBeGreaterThan(0);
      expect(statuses[503]).toBeGreaterThan(50);
      expect(statuses[429]).toBeUndefined();
      redis.goOn();
      await until("Redis decides again", async () => (await ask(`${gateway?.url}/denied`)).status === admitted);
    } finally {
      redis.goOn();
      await gateway?.stop();
      await redis.stop("SIGKILL");
    }
  });

  it("a gateway that starts while the control plane is down too has its share, not the whole", async () => {
    const [controlPort, closedPort] = (await freePorts(2)) as [number, number];
    const control = new ControlPlaneDouble(controlPort);
    const gateway = await LoneGateway.start({
      env: {
        SLUICE_CONTROL_URL: `http://127.0.0.1:${controlPort}`,
        SLUICE_GATEWAY_TOKEN: "token",
        SLUICE_REDIS_URL: `redis://127.0.0.1:${closedPort}`,
      },
    });
    try {
      const limit = { algorithm: "token-bucket", quota: 10, window: "366d" };
      await control.push([{ app: "default", document: policy("all", { limits: [limit] }) }], [], 2);
      const limitReported = async () => (await ask(`${gateway.url}/all`)).headers["x-ratelimit-limit"];
      const file = join(gateway.snapshotDir, "live-gateways");
      await until("it is told of another gateway", () => existsSync(file) && readFileSync(file, "utf8") === "2\n");
      await until("the snapshot is stored", () => existsSync(join(gateway.snapshotDir, "policies.log")));
      await control.stop();
      await gateway.restart();
      expect(await limitReported()).toBe("5");

      expect(gateway.log).not.toContain("live-gateways is damaged");
      await gateway.restart(() => writeFileSync(file, "0\n"));
      expect(await limitReported()).toBe("10");
      expect(gateway.log.split("live-gateways is damaged")).toHaveLength(2);
    } finally {
      await gateway.stop();
    }
  });
});
