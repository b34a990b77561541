// Strangers ask for the push socket. These tests show what the log has of it.

import type { FastifyBaseLogger } from "fastify";
import { describe, expect, it } from "vitest";
import { GatewayLog } from "../../../control-plane/src/push/gateway-log.ts";

function world() {
  const lines: object[] = [];
  const clock = { nowMs: 1_000_000 };
  const log = { warn: (fields: object, msg: string) => void lines.push({ ...fields, msg }) };
  return { lines, clock, gatewayLog: new GatewayLog(log as unknown as FastifyBaseLogger, () => clock.nowMs) };
}

describe("refusals to be a gateway", () => {
  it("are one line a minute for an IPv6 /64, whichever addresses of it they come from", () => {
    const { lines, clock, gatewayLog } = world();
    for (let i = 0; i < 5_000; i++) gatewayLog.refused(`2001:db8::${i.toString(16)}`, "The token is unknown.");
    expect(lines).toHaveLength(1);
    clock.nowMs += 60_000;
    gatewayLog.refused("2001:db8::1", "The token is unknown.");
    expect(lines).toMatchObject([{}, { timesSince: 4_999 }]);
  });

  it("are a hundred lines a minute in all, keep no warning about a gateway from the log, and then say how many were left out", () => {
    const { lines, clock, gatewayLog } = world();
    for (let i = 0; i < 5_000; i++) gatewayLog.refused(`10.0.${i >> 8}.${i % 256}`, "The token is unknown.");
    expect(lines).toHaveLength(100);
    gatewayLog.warn("gw-1", "10.2.0.1", {}, "a gateway refused a snapshot");
    expect(lines.splice(100)).toMatchObject([{ gateway: "gw-1", msg: "a gateway refused a snapshot" }]);
    clock.nowMs += 60_000;
    gatewayLog.refused("10.1.0.1", "The token is unknown.");
    expect(lines.slice(100)).toMatchObject([{ unsaid: 4_900 }, { address: "10.1.0.1" }]);
  });
});
