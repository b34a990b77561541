// The problem document with which the middlewares of all clients refuse a request that is beyond its limit.

import { expect } from "vitest";

/** @param askedAtMs when the request was sent */
export function expectQuotaExceeded(
  { headers, body }: { readonly headers: Readonly<Record<string, unknown>>; readonly body: string },
  askedAtMs: number,
): void {
  const seconds = Number(headers["retry-after"]);
  expect(seconds).toBeGreaterThan(3600);
  const { detail, ...rest } = JSON.parse(body);
  expect(rest).toEqual({
    type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
    title: "Quota exceeded",
    status: 429,
    policy: "three",
  });
  const [, date, time] = /^Try again at (\S+) (\S+) UTC\.$/.exec(detail) ?? [];
  // The text has whole seconds, rounded up, and the answer came a little while ago.
  const saidMs = Date.parse(`${date}T${time}Z`);
  expect(saidMs).toBeGreaterThanOrEqual(askedAtMs + seconds * 1000);
  expect(saidMs).toBeLessThan(Date.now() + seconds * 1000 + 1000);
}
