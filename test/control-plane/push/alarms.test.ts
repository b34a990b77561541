// A gateway that does not have what is stored raises an alarm wherever the control plane shows its state.

import { describe, expect, it } from "vitest";
import {
  onePerSecond,
  type Running,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { untilPasses } from "../../fixtures/until.ts";

const books = "/apps/default/policies/books";
const tooLarge = {
  path: "",
  expected: "a snapshot that fits the shared dict sluice_state: make it larger in nginx.conf",
  got: "16777216 bytes: no memory",
};

async function seen(running: Running) {
  const ready = await running.call("GET", "readyz", { token: undefined });
  const metrics = (await running.call("GET", "metrics")).body.split("\n");
  const gateways = (await running.call("GET", "/gateways")).body.gateways;
  return {
    status: ready.status,
    alarms: ready.body.alarms,
    metrics: metrics.filter(
      (line: string) => line.startsWith("sluice_control_gateway_alarms{") && !line.endsWith(" 0"),
    ),
    gateways: gateways.map(({ id, alarm }: { id: string; alarm: string | null }) => [id, alarm]),
  };
}

describe("a gateway that cannot take a snapshot", () => {
  it("appears in /readyz, which stays ready, in /metrics, in GET /gateways and in the answer, until it takes one", async () => {
    const running = await startControlPlane();
    const good = await connectGateway(running, "good");
    const full = await connectGateway(running, "full");
    for (const gateway of [good, full]) gateway.apply(await gateway.next("snapshot"));
    const put = running.call("PUT", `${books}?wait=60s`, { body: onePerSecond });
    good.apply(await good.next("snapshot"));
    const { epoch, revision } = await full.next("snapshot");
    full.say({ type: "refused", epoch, revision, problems: [tooLarge] });
    expect((await put).body.applied).toEqual({
      gateways: 2,
      acked: 1,
      refused: 1,
      refusals: [{ gateway: "full", revision: 1, errors: [tooLarge] }],
    });
    expect(await seen(running)).toEqual({
      status: 200,
      alarms: [{ alarm: "snapshot-refused", gateways: 1 }],
      metrics: ['sluice_control_gateway_alarms{alarm="snapshot-refused"} 1'],
      gateways: [
        ["full", "snapshot-refused"],
        ["good", null],
      ],
    });
    await running.call("DELETE", books);
    full.apply(await full.next("snapshot"));
    await untilPasses(async () => expect((await seen(running)).alarms).toEqual([]));
  });

  it("shows an app's editor that it is full, and not the faults of other policies", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1");
    await gateway.next("snapshot");
    const { token } = (await running.call("POST", "/tokens", { body: { name: "x", app: "default", role: "editor" } }))
      .body;
    const put = running.call("PUT", `${books}?wait=60s`, { token, body: onePerSecond });
    const { epoch, revision } = await gateway.next("snapshot");
    const problems = [{ path: "policies[3].document.key", expected: "a key", got: "a secret" }, tooLarge];
    gateway.say({ type: "refused", epoch, revision, problems });
    expect((await put).body.applied.refusals).toEqual([{ gateway: "g1", revision, errors: [tooLarge] }]);
    const [shown] = (await running.call("GET", "/gateways", { token })).body.gateways;
    expect(shown.refused.errors).toEqual([tooLarge]);
  });

  it("may refuse what it cannot read without a position: that means what it was sent, and without that nothing", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "g1", { epoch: "", revision: 0, protocol: 2 });
    const unread = { type: "refused" as const, epoch: "", revision: 0, problems: [tooLarge] };
    gateway.apply(await gateway.next("snapshot"));
    gateway.say(unread);
    await gateway.untilHeard();
    expect((await seen(running)).alarms).toEqual([]);
    const put = running.call("PUT", `${books}?wait=60s`, { body: onePerSecond });
    const { revision } = await gateway.next("delta");
    gateway.say(unread);
    expect((await put).body.applied).toMatchObject({ acked: 0, refused: 1, refusals: [{ gateway: "g1", revision }] });
  });

  it("is an alarm too if it says nothing for half a minute, and none once it goes away", async () => {
    let nowMs = Date.now();
    const running = await startControlPlane({}, { now: () => nowMs });
    const gateway = await connectGateway(running, "hung");
    await gateway.next("snapshot");
    nowMs += 30_000;
    expect((await seen(running)).alarms).toEqual([]);
    nowMs += 1_000;
    // /readyz remembers what it has counted for a tenth of a second.
    const late = [{ alarm: "snapshot-late", gateways: 1 }];
    await untilPasses(async () => expect((await seen(running)).alarms).toEqual(late));
    gateway.socket.terminate();
    await untilPasses(async () => expect((await seen(running)).alarms).toEqual([]));
  });
});

describe("a gateway in which Sluice fails", () => {
  it("appears until minutes have passed without an error, and /readyz stays ready", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "failing");
    gateway.apply(await gateway.next("snapshot"));
    gateway.say({ type: "status", counters: {}, errors: { access: 3 } });
    await untilPasses(async () =>
      expect(await seen(running)).toEqual({
        status: 200,
        alarms: [{ alarm: "sluice-errors", gateways: 1 }],
        metrics: ['sluice_control_gateway_alarms{alarm="sluice-errors"} 1'],
        gateways: [["failing", "sluice-errors"]],
      }),
    );
    expect((await running.call("GET", "/gateways")).body.gateways[0].errors).toEqual({ access: 3 });
    expect((await running.call("GET", "readyz", { token: undefined })).body.degraded).toEqual([
      "Sluice itself fails in gateways: see alarms.",
    ]);
    gateway.say({ type: "status", counters: {} });
    await untilPasses(async () => expect((await seen(running)).gateways).toEqual([["failing", null]]));
    expect((await running.call("GET", "/gateways")).body.gateways[0].errors).toBeNull();
  });
});

describe("a gateway that has no Redis", () => {
  const cluster = { ...onePerSecond, scope: "cluster" };
  const none = { status: 200, alarms: [], metrics: [], gateways: [["bare", null]] };

  it("appears while it would need one, and /readyz stays ready", async () => {
    const running = await startControlPlane({ SLUICE_REDIS_URL: "redis://127.0.0.1:1" });
    const gateway = await connectGateway(running, "bare");
    gateway.apply(await gateway.next("snapshot"));
    const says = async (report: object) => {
      gateway.say({ type: "status", counters: {}, ...report });
      await gateway.untilHeard();
    };
    const put = async (body: object) => {
      expect((await running.call("PUT", books, { body })).status).toBeLessThan(300);
      gateway.apply(await gateway.next("snapshot"));
      await gateway.untilHeard();
    };
    await says({});
    await put(onePerSecond);
    // /readyz remembers what it has counted for a tenth of a second.
    await untilPasses(async () => expect(await seen(running)).toEqual(none));
    await put(cluster);
    await untilPasses(async () =>
      expect(await seen(running)).toEqual({
        status: 200,
        alarms: [{ alarm: "redis-missing", gateways: 1 }],
        metrics: ['sluice_control_gateway_alarms{alarm="redis-missing"} 1'],
        gateways: [["bare", "redis-missing"]],
      }),
    );
    expect((await running.call("GET", "readyz", { token: undefined })).body.degraded).toContain(
      "Gateways have no Redis for policies of scope cluster: see alarms.",
    );
    await says({ redis: { state: "unused", sinceSeconds: 1 } });
    await untilPasses(async () => expect(await seen(running)).toEqual(none));
    await says({});
    await untilPasses(async () => expect((await seen(running)).gateways).toEqual([["bare", "redis-missing"]]));
    await put({ ...cluster, mode: "shadow" });
    await untilPasses(async () => expect(await seen(running)).toEqual(none));
    await put({ ...cluster, key: ["ip"], mode: "shadow", overrides: [{ key: ["192.0.2.1"], mode: "enforce" }] });
    await untilPasses(async () => expect((await seen(running)).gateways).toEqual([["bare", "redis-missing"]]));
    expect((await running.call("DELETE", books)).status).toBe(200);
    await untilPasses(async () => expect(await seen(running)).toEqual(none));
  });

  it("appears after a restart of the control plane", async () => {
    const environment = { SLUICE_REDIS_URL: "redis://127.0.0.1:1", SLUICE_DATA_DIR: await temporaryDir() };
    const first = await startControlPlane(environment);
    expect((await first.call("PUT", books, { body: cluster })).status).toBe(201);
    await first.stop();
    const running = await startControlPlane(environment);
    const gateway = await connectGateway(running, "bare");
    gateway.apply(await gateway.next("snapshot"));
    gateway.say({ type: "status", counters: {} });
    await untilPasses(async () => expect((await seen(running)).gateways).toEqual([["bare", "redis-missing"]]));
  });
});

describe("a gateway that finds Redis too slow", () => {
  it("appears until its last worker has returned, and /readyz stays ready", async () => {
    const running = await startControlPlane();
    const gateway = await connectGateway(running, "slow");
    gateway.apply(await gateway.next("snapshot"));
    const say = (overloadedWorkers?: number) =>
      gateway.say({ type: "status", counters: {}, redis: { state: "ok", sinceSeconds: 1, overloadedWorkers } });
    say(2);
    await untilPasses(async () =>
      expect(await seen(running)).toEqual({
        status: 200,
        alarms: [{ alarm: "redis-overloaded", gateways: 1 }],
        metrics: ['sluice_control_gateway_alarms{alarm="redis-overloaded"} 1'],
        gateways: [["slow", "redis-overloaded"]],
      }),
    );
    expect((await running.call("GET", "/gateways")).body.gateways[0].redis.overloadedWorkers).toBe(2);
    expect((await running.call("GET", "readyz", { token: undefined })).body.degraded).toEqual([
      "Redis is too slow for gateways, which decide by their shares: see alarms.",
    ]);
    say();
    await untilPasses(async () => expect((await seen(running)).gateways).toEqual([["slow", null]]));
    expect((await running.call("GET", "/gateways")).body.gateways[0].redis.overloadedWorkers).toBe(0);
  });
});
