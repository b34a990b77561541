import { expect, it } from "vitest";
import { readSettings } from "../../launch/settings.ts";

it.each(["redis+other://a:1", "redis+cluster://", "localhost"])("refuses %s for a Redis", (url) => {
  expect(() => readSettings({ SLUICE_REDIS_URL: url })).toThrow(
    "SLUICE_REDIS_URL: expected redis://, redis+sentinel:// or redis+cluster://, or these with rediss for TLS, got something else",
  );
});

it.each(["redis://localhost:6379/1", "rediss://u:p@h", "redis+sentinel://a:1,b:2/m", "rediss+cluster://a:1"])(
  "takes %s for a Redis",
  (url) => {
    expect(readSettings({ SLUICE_REDIS_URL: url }).redisUrl).toBe(url);
  },
);
