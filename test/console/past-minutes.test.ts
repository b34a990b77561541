// The minutes of the chart over the history, and what the URLs of history and audit trail say.

import { expect, it } from "vitest";
import { readAuditSearch } from "../../console/src/pages/audit/audit-search.ts";
import { readHistorySearch } from "../../console/src/pages/history/history-search.ts";
import { minutesOf } from "../../console/src/pages/history/past-minutes.ts";

it("each minute until now is there, and one without traffic is zero", () => {
  const nowMs = Date.parse("2026-11-24T12:34:56Z");
  const point = { at: "2026-11-24T12:33:00Z", admitted: 7, refused: 2, shadowRefused: 0, delayed: 1, degraded: 0 };
  const [seconds, admitted, refused, delayed] = minutesOf([point], "6h", nowMs) as number[][];
  expect(seconds).toHaveLength(360);
  expect(seconds?.at(-1)).toBe(Date.parse("2026-11-24T12:34:00Z") / 1_000);
  expect([admitted, refused, delayed].map((column) => column?.slice(-3))).toEqual([
    [0, 7, 0],
    [0, 2, 0],
    [0, 1, 0],
  ]);
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
