// What the overview says needs attention.

import { expect, it } from "vitest";
import type { Fleet } from "../../console/src/api/queries.ts";
import { attentionOf } from "../../console/src/pages/overview/attention.ts";

const gateway = (id: string, own: object = {}) => ({
  id,
  connected: true,
  connectedAt: "2026-01-01T00:00:00Z",
  version: "0.1.0",
  workers: 1,
  protocol: 2,
  revision: 1,
  lag: 0,
  alarm: null,
  refused: null,
  counters: {},
  redis: null,
  ...own,
});
const fleet = (...gateways: object[]) =>
  ({ revision: 1, connected: gateways.length, redis: { state: "ok" }, gateways }) as Fleet;
const ready = { status: "ok", degraded: [], storage: "ok", redis: "ok", gateways: 1, alarms: [] } as const;

it("says nothing before it knows, and nothing while all is well", () => {
  expect(attentionOf(undefined, undefined)).toEqual([]);
  expect(attentionOf({ ...ready, degraded: [], alarms: [] }, fleet(gateway("a")))).toEqual([]);
});

it("says first that nothing can be stored, then what fails, each alarm once with its gateways", () => {
  const late = { alarm: "snapshot-late" };
  const all = { ...fleet(gateway("a", late), gateway("b"), gateway("c", late)), redis: { state: "failing" as const } };
  expect(attentionOf({ ...ready, degraded: [], alarms: [], storage: "full" }, all)).toEqual([
    { kind: "storage", state: "full" },
    { kind: "redis" },
    { kind: "alarm", alarm: "snapshot-late", gateways: ["a", "c"] },
  ]);
});

it("says that no gateway is connected, and which cannot use Redis", () => {
  expect(attentionOf(undefined, { ...fleet(), connected: 0 })).toEqual([{ kind: "noGateway" }]);
  const failing = { redis: { state: "failing", since: "2026-01-01T00:00:00Z" } };
  const gone = gateway("b", { ...failing, connected: false });
  expect(attentionOf(undefined, fleet(gateway("a", failing), gone))).toEqual([
    { kind: "gatewayRedis", gateways: ["a"] },
  ]);
});

it("says that Redis is too slow for a gateway, and not also that its probes fail", () => {
  const slow = {
    alarm: "redis-overloaded",
    redis: { state: "failing", since: "2026-01-01T00:00:00Z", overloadedWorkers: 2 },
  };
  expect(attentionOf(undefined, fleet(gateway("a", slow), gateway("b")))).toEqual([
    { kind: "alarm", alarm: "redis-overloaded", gateways: ["a"] },
  ]);
});
