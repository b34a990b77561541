// Tests policies and keys in Node by the vectors; test/gateway/policies_spec.lua does the same in nginx's Lua.

import { describe, expect, test } from "vitest";
import { calendarWindow, followWindow } from "../../limiter/src/algorithms/calendar-window.ts";
import { compilePolicy } from "../../limiter/src/compiled/compile.ts";
import { counterPrefix, counterSuffix, encodeKeyValues } from "../../limiter/src/compiled/counter-key.ts";
import { followCalendar, longestWindowUs } from "../../limiter/src/document/calendar.ts";
import type { Policy } from "../../limiter/src/document/policy.ts";
import { validatePolicy } from "../../limiter/src/document/validate.ts";
import { candidates, indexPolicies, meets } from "../../limiter/src/index/policy-index.ts";
import { matchesRegex, pathRegex } from "../../limiter/src/match/path-regex.ts";
import { readRegex } from "../../limiter/src/match/regex-syntax.ts";
import { limitOf, readVectors } from "./vectors.ts";

describe("in Node, a counter's stored key", () => {
  for (const { app, policy, limit, values, key } of readVectors("counter-keys").cases) {
    test(`is ${JSON.stringify(key)}`, () => {
      const sha1 = (text: string) => `sha1 of ${Buffer.byteLength(text)} bytes`;
      const encoded = encodeKeyValues(values, values.length, sha1);
      const suffix = counterSuffix(limitOf({ quota: 1, ...limit }, limit.name));
      expect(counterPrefix(app, policy) + encoded + suffix).toBe(key);
    });
  }
});

describe("in Node, windows of the calendar are those around", () => {
  for (const { note, unit, anchor, transitions, at, moments } of readVectors("calendar-windows").cases) {
    test(note, () => {
      const calendar = { unit, anchor, timezone: "any" };
      const window = calendarWindow(1, longestWindowUs(calendar), (one, nowUs) =>
        followCalendar(calendar, transitions, one, nowUs),
      );
      followWindow(window, Date.parse(at) * 1000);
      const { previousUs, startUs, endUs, nextEndUs } = window;
      expect([previousUs, startUs, endUs, nextEndUs]).toEqual(moments.map((moment) => Date.parse(moment) * 1000));
    });
  }
});

describe("in Node, a policy document", () => {
  const { valid, invalid } = readVectors("policy-documents");
  for (const { name, document, policy } of valid) {
    test(`is good: ${name}`, () => expect(validatePolicy(document)).toEqual({ policy, problems: [] }));
  }
  for (const { fault, document, problems } of invalid) {
    test(`is refused: ${fault}`, () => expect(validatePolicy(document)).toEqual({ problems }));
  }
});

describe("in Node, a request matches its policies in order:", () => {
  const { policies, requests } = readVectors("policy-matching");
  const compiled = policies.map(({ app, document }) => compilePolicy(app, validatePolicy(document).policy as Policy));
  for (const { host, path, method, headers = {}, policies: expected } of requests) {
    test(`${method} ${host}${path} ${JSON.stringify(headers)}`, () => {
      const met = candidates(indexPolicies(compiled), host, path).filter((one) =>
        meets(one, path, method, (name, values) => values[headers[name] ?? ""] === true),
      );
      expect(met.map(({ app, name }) => `${app}/${name}`)).toEqual(expected);
    });
  }
});

describe("in Node, a path and the regular expression", () => {
  for (const { regex, matches, others } of readVectors("path-regexes").cases) {
    test(JSON.stringify(regex), () => {
      expect(readRegex(regex).refusal).toBeUndefined();
      for (const path of matches) expect([path, matchesRegex(pathRegex(regex), path)]).toEqual([path, true]);
      for (const path of others) expect([path, matchesRegex(pathRegex(regex), path)]).toEqual([path, false]);
    });
  }
});
