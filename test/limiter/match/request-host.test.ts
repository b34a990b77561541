import { describe, expect, it } from "vitest";
import { isAmbiguousHost } from "../../../limiter/src/match/request-host.ts";

describe("servers read the host that nginx reads in", () => {
  it.each([
    ["api.example.com", "api.example.com"],
    ["API.Example.com:8080", "api.example.com"],
    ["api.example.com.", "api.example.com"],
    ["api.example.com.:80", "api.example.com"],
    ["api.example.com:", "api.example.com"],
    ["192.0.2.1:80", "192.0.2.1"],
    ["[2001:DB8::1]:80", "[2001:db8::1]"],
    ["a_b-c", "a_b-c"],
  ])("%s", (written, host) => expect(isAmbiguousHost(written, host)).toBe(false));
});

describe("servers may read another host than nginx in", () => {
  it.each([
    ["x@api.example.com", "x@api.example.com"],
    ["a:80@api.example.com", "a"],
    ["a:@api.example.com", "a"],
    ["a:80:80", "a"],
    ["api.exampl%65.com", "api.exampl%65.com"],
    ["api.example.com\\x", "api.example.com\\x"],
    ["api.example.com#x", "api.example.com#x"],
    ["api.example.com?x", "api.example.com?x"],
    ["api.example\u00e3\u0080\u0082com", "api.example\u00e3\u0080\u0082com"],
    ["api.example.com", "elsewhere.example"],
    ["api.example.com", "api.example"],
    ["a..", "a"],
    ["a,b", "a,b"],
  ])("%s", (written, host) => expect(isAmbiguousHost(written, host)).toBe(true));
});
