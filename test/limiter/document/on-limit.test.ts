import { describe, expect, test } from "vitest";
import { validatePolicy } from "../../../limiter/src/document/validate.ts";

const validated = (onLimit: unknown) =>
  validatePolicy({ name: "p", limits: [{ algorithm: "fixed-window", quota: 1, window: "1s" }], onLimit });
const read = (onLimit: unknown) => validated(onLimit).policy?.onLimit;
const problems = (onLimit: unknown) => validated(onLimit).problems.map(({ path, expected }) => `${path}: ${expected}`);

describe("what happens over the limit", () => {
  const plain = { action: "reject", status: 429, body: undefined, headers: [] };

  test("is a refusal with 429 unless the policy says otherwise", () => {
    expect(read(undefined)).toEqual(plain);
    expect(read({})).toEqual(plain);
    expect(read({ status: 503, body: "", headers: ["X-Why: full: yes"] })).toEqual({
      ...plain,
      status: 503,
      body: "",
      headers: [{ name: "x-why", value: "full: yes" }],
    });
  });

  test("groups lines of one name, in their order", () => {
    expect(read({ headers: ["set-cookie: a=1", "x-b: 1", "Set-Cookie: c=1"] })).toEqual({
      ...plain,
      headers: [
        { name: "set-cookie", value: ["a=1", "c=1"] },
        { name: "x-b", value: "1" },
      ],
    });
  });

  test("may be a wait, and a refusal beyond it", () => {
    expect(read({ action: "delay", maxDelay: "2s", status: 503 })).toEqual({
      action: "delay",
      maxDelayUs: 2_000_000,
      maxWaiting: 100,
      otherwise: { ...plain, status: 503 },
    });
  });

  test("may be one of four kinds of degraded answer", () => {
    const less = { action: "degrade", target: undefined, response: undefined, header: undefined };
    expect(read({ action: "degrade", uri: "/cheap?x=1" })).toEqual({ ...less, target: "/cheap?x=1" });
    expect(read({ action: "degrade", location: "@cached" })).toEqual({ ...less, target: "@cached" });
    expect(read({ action: "degrade", header: "x-less: 1" })).toEqual({
      ...less,
      header: { name: "x-less", value: "1" },
    });
    expect(read({ action: "degrade", response: {} })).toEqual({
      ...less,
      response: { ...plain, status: 200, body: "" },
    });
  });

  test("may be a mark", () => {
    expect(read({ action: "tag", header: "X-Over-Limit: 1" })).toEqual({
      action: "tag",
      header: { name: "x-over-limit", value: "1" },
    });
  });
});

describe("the validator refuses", () => {
  test("a field of another action", () => {
    expect(problems({ maxDelay: "1s" })).toEqual(["onLimit.maxDelay: nothing: reject has no maxDelay"]);
    expect(problems({ action: "tag", header: "a: 1", status: 429 })).toEqual([
      "onLimit.status: nothing: tag has no status",
    ]);
  });

  test("an action without a required field, or with too many", () => {
    expect(problems({ action: "delay" })).toEqual(["onLimit.maxDelay: how long a request may wait"]);
    expect(problems({ action: "tag" })).toEqual(["onLimit.header: the header to send upstream"]);
    const oneOf = "onLimit: one of uri, location, response, header";
    expect(problems({ action: "degrade" })).toEqual([oneOf]);
    expect(problems({ action: "degrade", uri: "/a", location: "@b" })).toEqual([oneOf]);
  });

  test.each([
    ["a line break", "x-a: 1\r\nset-cookie: b"],
    ["a line feed", "x-a: 1\n"],
    ["a tab", "x-a: \t1"],
    ["no value", "x-a:"],
    ["no name", ": 1"],
    ["no colon", "x-a"],
    ["a blank in the name", "x a: 1"],
    ["a letter whose small letter is an ASCII one", "x-\u212aey: 1"],
    ["what frames the message", "Content-Length: 0"],
    ["the other framing", "transfer-encoding: chunked"],
  ])("%s in a header line", (_, line) => {
    expect(problems({ action: "tag", header: line })).toHaveLength(1);
    expect(problems({ headers: [line] })).toHaveLength(1);
  });

  test.each(["cheap", "", "/a b", "/a\r\nb", "/ä", "@"])("%j as a location or path to serve from", (text) => {
    expect(problems({ action: "degrade", uri: text })).toHaveLength(1);
    expect(problems({ action: "degrade", location: text })).toHaveLength(1);
  });

  // nginx would not go there, and the request would pass.
  test.each(["/a/../b", "/..", "/a/..?x", "/%2e%2e/a", "/.%2E%2fa", "/a%00b"])("%j as a path of this server", (uri) => {
    expect(problems({ action: "degrade", uri })).toEqual([
      'onLimit.uri: a path beginning with one "/", without ".." and %00',
    ]);
  });

  test("only real path traversal, not what looks like it", () => {
    for (const uri of ["/..a/b..", "/a?x=/../b", "/%252e%252e/", "/100%"]) {
      expect(problems({ action: "degrade", uri }), uri).toEqual([]);
    }
  });
});
