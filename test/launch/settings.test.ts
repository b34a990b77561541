import { expect, it } from "vitest";
import { readSettings } from "../../launch/settings.ts";

it.each(["redis+sentinel://a:1,b:2/m", "redis+cluster://a:1", "localhost"])("refuses %s for a Redis", (url) => {
  expect(() => readSettings({ SLUICE_REDIS_URL: url })).toThrow(
    "SLUICE_REDIS_URL: expected redis:// or rediss:// (Sentinel and Cluster are not available yet), got something else",
  );
});

it.each(["redis://localhost:6379/1", "rediss://u:p@h"])("takes %s for a Redis", (url) => {
  expect(readSettings({ SLUICE_REDIS_URL: url }).redisUrl).toBe(url);
});
