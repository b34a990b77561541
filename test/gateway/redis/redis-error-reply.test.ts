import { expect, it } from "vitest";
import { changedNothing, codeOf, redirection } from "../../../gateway/src/redis/error-reply.ts";

it.each([
  ["MOVED 3999 127.0.0.1:6381", "MOVED"],
  ["TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN"],
  ["READONLY You can't write against a read only replica. script: 5f, on @user_script:1.", "READONLY"],
  // Redis 6 reports a failure within a script like this.
  ["ERR Error running script (call to f_5f): @user_script:9: -READONLY You can't write", "READONLY"],
  ["ERR value is not an integer or out of range script: 5f, on @user_script:9.", "other"],
  ["", "other"],
])("%s is %s", (message, code) => {
  expect(codeOf(message)).toBe(code);
});

it("an error code means that nothing was changed only if that is certain", () => {
  for (const code of ["MOVED", "ASK", "OOM", "NOSCRIPT", "BUSY"] as const) expect(changedNothing(code)).toBe(true);
  for (const code of ["other", "NOPERM"] as const) expect(changedNothing(code)).toBe(false);
});

it.each([
  ["MOVED 3999 127.0.0.1:6381", ["127.0.0.1", 6381]],
  ["ASK 3999 redis-2.example:6381", ["redis-2.example", 6381]],
  ["MOVED 3999 ::1:6381", ["::1", 6381]],
  ["MOVED 3999 :6381", ["", 6381]],
  ["MOVED 3999", undefined],
  ["MOVED 3999 h:x", undefined],
  ["MOVED 3999 h:65536", undefined],
])("%s leads to %j", (message, place) => {
  expect(redirection(message)).toEqual(place);
});
