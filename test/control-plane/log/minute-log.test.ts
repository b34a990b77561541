// A client that causes the same line of the log again and again causes one of them a minute.

import type { FastifyBaseLogger } from "fastify";
import { describe, expect, it } from "vitest";
import { MinuteLog } from "../../../control-plane/src/log/minute-log.ts";
import { openPushSocket } from "../../fixtures/clients/simulated-gateway.ts";
import { gatewayToken, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { untilPasses } from "../../fixtures/until.ts";

interface Line {
  readonly msg: string;
  readonly timesSince?: number;
}

describe("a log of minutes", () => {
  const lines: object[] = [];
  const clock = { ms: 0 };
  const log = { warn: (fields: object, msg: string) => void lines.push({ ...fields, msg }) };
  const minutes = new MinuteLog(log as unknown as FastifyBaseLogger, () => clock.ms, "more was not said");

  it("says each kind once a minute, with how often it was since, and no more than a hundred kinds", () => {
    for (let n = 0; n < 3_000; n++) minutes.say("warn", `kind ${n % 150}`, { n }, "what");
    expect(lines).toHaveLength(100);
    clock.ms += 60_000;
    minutes.say("warn", "kind 0", { n: 0 }, "what");
    expect(lines.slice(100)).toEqual([
      { unsaid: 1_000, msg: "more was not said" },
      { n: 0, timesSince: 19, msg: "what" },
    ]);
  });

  it("says at once what it has forgotten", () => {
    minutes.say("warn", "kind 0", {}, "again");
    expect([minutes.forget("kind 0"), minutes.forget("kind 0")]).toEqual([true, false]);
    minutes.say("warn", "kind 0", {}, "again");
    expect(lines.at(-1)).toEqual({ timesSince: undefined, msg: "again" });
    expect(lines).toHaveLength(103);
  });
});

describe("lines of the log", () => {
  let nowMs = 1_000_000;

  async function start(environment = {}): Promise<Running & { said(msg: string): Line[] }> {
    const lines: Line[] = [];
    const running = await startControlPlane(
      { SLUICE_LOG_LEVEL: "warn", ...environment },
      { uptimeMs: () => nowMs, logTo: { write: (line) => void lines.push(JSON.parse(line)) } },
    );
    return { ...running, said: (msg) => lines.filter((line) => line.msg === msg) };
  }

  it("about a Redis that is away are one a minute, however many counters a viewer asks for", async () => {
    const { call, said } = await start({ SLUICE_REDIS_URL: "redis://127.0.0.1:1" });
    await call("PUT", "/apps/shop", { body: { realm: { hosts: ["a.test"] } } });
    const limits = [{ algorithm: "fixed-window", quota: 1, window: "1s" }];
    const body = { scope: "cluster", match: { hosts: ["a.test"] }, key: ["header:x-user"], limits };
    await call("PUT", "/apps/shop/policies/books", { body });
    const viewer = await call("POST", "/tokens", { body: { name: "v", app: "shop", role: "viewer" } });
    const ask = (key: string) =>
      call("GET", `/apps/shop/counters?policy=books&key=${key}`, { token: viewer.body.token });
    for (let n = 0; n < 20; n++) expect((await ask(`${n}`)).body.code).toBe("redis-unavailable");
    nowMs += 60_000;
    await ask("later");
    const lines = said("Redis did not do what was asked of a counter");
    expect(lines.map(({ timesSince }) => timesSince)).toEqual([undefined, 19]);
  });

  it("about sockets of gateways that break the protocol are one a minute", async () => {
    const { url, said } = await start();
    const breakOff = async () => {
      const socket = await openPushSocket(url, gatewayToken);
      const closed = new Promise((resolve) => socket.once("close", resolve));
      socket.send("x".repeat(2 * 1_048_576));
      await closed;
    };
    for (let n = 0; n < 5; n++) await breakOff();
    nowMs += 60_000;
    await breakOff();
    await untilPasses(() => {
      expect(said("push socket failed").map(({ timesSince }) => timesSince)).toEqual([undefined, 4]);
    });
  });
});
