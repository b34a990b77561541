// Tests a single gateway at the edges: no memory left, odd statuses, odd settings.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keysFrom, spray } from "../../fixtures/clients/key-spray.ts";
import { ask } from "../../fixtures/clients/requests.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { until } from "../../fixtures/until.ts";

const perHeader = (name: string, quota: number) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-key"],
  limits: [{ algorithm: "token-bucket", quota: 1, window: "1d", burst: quota }],
});
const statuses = [400, 403, 408, 429, 444, 499, 500, 503, 599];
const onMissingKey = (value: string) => ({ ...perHeader(value, 1), onMissingKey: value });

/** The lock of policy `held` has the name of the counter's cell. */
const family = "s3:{default:held:}:default:token-bucket:86400000000";
const cell = `ngx.encode_base64(ngx.sha1_bin("${family}"):sub(1, 12)) .. "0:"`;
const holdFor = (path: string, seconds: number) =>
  `location = ${path} { content_by_lua_block { ngx.shared.sluice_locks:set(${cell}, 1, ${seconds}) } }`;

describe.concurrent("a gateway", () => {
  let gateway: LoneGateway;
  beforeAll(async () => {
    gateway = await LoneGateway.start({
      workers: 2,
      policies: [
        ...statuses.map((status) => ({
          name: `s${status}`,
          match: { paths: [`/s${status}`] },
          cost: 2,
          limits: [{ algorithm: "fixed-window", quota: 2, window: "366d" }],
          onLimit: { status },
        })),
        perHeader("head", 1),
        ...["skip", "deny", "shared"].map(onMissingKey),
        { ...perHeader("shadow", 1), mode: "shadow" },
        { name: "held", match: { paths: ["/held"] }, limits: [{ algorithm: "token-bucket", quota: 9, window: "1d" }] },
      ],
      env: { SLUICE_CONTROL_URL: "http://127.0.0.1" },
      edit: (config) =>
        config.replace("location / {", `${holdFor("/as-killed", 0.5)}\n${holdFor("/for-ever", 60)}\nlocation / {`),
    });
  });
  afterAll(() => gateway?.stop());

  it("answers with every status that a policy may name", async () => {
    for (const status of statuses) {
      await ask(`${gateway.url}/s${status}`);
      const refused = await ask(`${gateway.url}/s${status}`);
      expect(refused.status).toBe(status);
      expect(JSON.parse(refused.body).status).toBe(status);
    }
  });

  it("finds the control plane by an address without a port", async () => {
    await until("the log names the address", () => gateway.log.includes("ws://127.0.0.1:80/api/v1/push"));
  });

  it("answers HEAD like GET, without a body", async () => {
    const head = () => ask(`${gateway.url}/head`, { method: "HEAD", headers: { "x-key": "a" } });
    await head();
    expect(await head()).toMatchObject({ status: 429, body: "", headers: { "retry-after": "86400" } });
  });

  it("lets requests without the key pass, refuses them, or counts them together, as the policy says", async () => {
    const twice = async (path: string) => [
      (await ask(`${gateway.url}${path}`)).status,
      (await ask(`${gateway.url}${path}`)).status,
    ];
    // The upstream here answers 404 to a path that it does not know.
    expect(await twice("/skip")).toEqual([404, 404]);
    expect(await twice("/deny")).toEqual([403, 403]);
    expect(await twice("/shared")).toEqual([404, 429]);
  });

  it("reports what a shadow policy would refuse, and lets it pass unchanged", async () => {
    for (let i = 0; i < 3; i++) {
      const { status, headers } = await ask(`${gateway.url}/shadow`, { headers: { "x-key": "a" } });
      expect(status).toBe(404);
      expect(headers["x-ratelimit-limit"]).toBeUndefined();
    }
    expect(gateway.log).toContain("shadow policy would have refused: default/shadow, key: header:x-key ");
    await until("the metric counts them", async () =>
      (await ask(`${gateway.privateUrl}/sluice/metrics`)).body.includes(
        'sluice_decisions_total{app="default",policy="shadow",result="shadow-refused"} 2',
      ),
    );
  });

  it("waits for the lock of a killed holder until it expires, and goes on without a lock that does not expire", async () => {
    const timed = async () => {
      const startedAtMs = performance.now();
      const { headers } = await ask(`${gateway.url}/held`);
      return { remaining: headers["x-ratelimit-remaining"], tookMs: performance.now() - startedAtMs };
    };
    await ask(`${gateway.url}/as-killed`);
    const afterKill = await timed();
    expect(afterKill.remaining).toBe("8");
    expect(afterKill.tookMs).toBeGreaterThan(300);
    expect(await gateway.metric("sluice_lock_timeouts_total")).toBe(0);
    await ask(`${gateway.url}/for-ever`);
    const without = await timed();
    expect(without.remaining).toBe("7");
    expect(without.tookMs).toBeGreaterThan(500);
    await until("the time-out is counted", async () => (await gateway.metric("sluice_lock_timeouts_total")) === 1);
  });

  it("counts a key even if a flood has filled the memory with counters of another size", async () => {
    const flooded = await LoneGateway.start({
      policies: [perHeader("flood", 1), perHeader("victim", 2)],
      edit: (config) =>
        config.replace("sluice_counters 64m", "sluice_counters 1m").replace(
          "location / {",
          `location / { access_by_lua_block { sluice.access() } content_by_lua_block { ngx.exit(204) } }
             location /unused {`,
        ),
    });
    try {
      // Short keys fill every page with small cells; a long key needs a page of larger ones.
      await spray(`${flooded.url}/flood`, keysFrom("", 15_000));
      const answers: number[] = [];
      for (let i = 0; i < 5; i++) {
        answers.push((await ask(`${flooded.url}/victim`, { headers: { "x-key": "k".repeat(150) } })).status);
      }
      expect(answers).toEqual([204, 204, 429, 429, 429]);
      expect(await flooded.metric("sluice_evictions_total")).toBe(0);
      expect(await flooded.metric("sluice_unstored_charges_total")).toBe(0);
    } finally {
      await flooded.stop();
    }
  });

  it("does not start with an invalid deadline for Redis, though it has no Redis yet", async () => {
    const nonsense = (config: string) =>
      config.replace("env SLUICE_REDIS_DEADLINE_MS;", "env SLUICE_REDIS_DEADLINE_MS=soon;");
    const started = LoneGateway.start({ policies: [], edit: nonsense }).then(async (one) => {
      await one.stop();
      return "started";
    });
    await expect(started).rejects.toThrow('SLUICE_REDIS_DEADLINE_MS: expected a number from 1 to 60000, got "soon"');
  });
});
