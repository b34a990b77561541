// The minutes and hours of charts of traffic, and what the URLs of history and audit trail say.

import { expect, it } from "vitest";
import { readAuditSearch } from "../../console/src/pages/audit/audit-search.ts";
import { readHistorySearch } from "../../console/src/pages/history/history-search.ts";
import { pastColumns } from "../../console/src/parts/traffic/past-periods.ts";

it("each minute until now is there, and one without traffic is zero", () => {
  const nowMs = Date.parse("2026-11-24T12:34:56Z");
  const point = { at: "2026-11-24T12:33:00Z", admitted: 7, refused: 2, shadowRefused: 0, delayed: 1, degraded: 0 };
  const [seconds, admitted, refused, delayed] = pastColumns([point], "6h", nowMs) as number[][];
  expect(seconds).toHaveLength(360);
  expect(seconds?.at(-1)).toBe(Date.parse("2026-11-24T12:34:00Z") / 1_000);
  expect([admitted, refused, delayed].map((column) => column?.slice(-3))).toEqual([
    [0, 7, 0],
    [0, 2, 0],
    [0, 1, 0],
  ]);
});

it("each hour of thirty days is there", () => {
  const nowMs = Date.parse("2026-11-24T12:34:56Z");
  const point = { at: "2026-10-25T13:00:00Z", admitted: 7, refused: 2, shadowRefused: 0, delayed: 1, degraded: 0 };
  const [seconds, admitted] = pastColumns([point], "30d", nowMs) as number[][];
  expect(seconds).toHaveLength(720);
  expect(seconds?.at(-1)).toBe(Date.parse("2026-11-24T12:00:00Z") / 1_000);
  expect([seconds?.[0], admitted?.[0]]).toEqual([Date.parse(point.at) / 1_000, 7]);
  expect(readHistorySearch({ period: "30d" })).toEqual({ period: "30d" });
});

it("URLs say only what the pages know", () => {
  expect(readHistorySearch({ app: "a", period: "6h", policy: 1 })).toEqual({ app: "a", period: "6h" });
  expect(readHistorySearch({ period: "7y" })).toEqual({});
  expect(readAuditSearch({ who: "ann", action: "sign-in", since: "1d", subject: "" })).toEqual({
    who: "ann",
    action: "sign-in",
    since: "1d",
  });
  expect(readAuditSearch({ action: "explode", since: "always" })).toEqual({});
});
