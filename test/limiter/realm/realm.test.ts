// Tests which hosts, paths and redirects an app's realm contains, and which headers an editor may not set.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compilePolicy } from "../../../limiter/src/compiled/compile.ts";
import { noFindings } from "../../../limiter/src/document/problems.ts";
import { checkShape, validatePolicy } from "../../../limiter/src/document/validate.ts";
import { candidates, indexPolicies, meets } from "../../../limiter/src/index/policy-index.ts";
import { headerProblems } from "../../../limiter/src/realm/headers.ts";
import { matchProblems } from "../../../limiter/src/realm/match-within.ts";
import { type RealmDocument, realmFrom } from "../../../limiter/src/realm/realm.ts";
import { realmShape } from "../../../limiter/src/realm/realm-shape.ts";
import { isReservedUri, redirectProblems } from "../../../limiter/src/realm/redirects.ts";
import { policyNamed } from "../policies.ts";

const problemsOf = (match: object, realm: RealmDocument) =>
  matchProblems(policyNamed("p", { match }).match, realmFrom(realm)).map(({ path, got }) => `${path}: ${got}`);

describe("hosts", () => {
  test.each([
    ["crm.test", ["crm.test"]],
    ["*.a.test", ["*.a.test"]],
    ["*.a.test", ["*.test"]],
    ["b.a.test", ["*.test"]],
    ["x.test", ["a.test", "x.test"]],
    ["[::1]", ["[::1]"]],
    ["anything.at.all", []],
  ])("%s is within %j", (host, hosts) => {
    expect(problemsOf({ hosts: [host] }, { hosts })).toEqual([]);
  });

  test.each([
    ["*.a.test", ["a.test"]],
    ["a.test", ["*.a.test"]],
    ["*.test", ["*.a.test"]],
    ["xa.test", ["a.test"]],
    ["*.xa.test", ["*.a.test"]],
    ["a.test.evil", ["a.test"]],
    ["constructor", ["a.test"]],
  ])("%s is not within %j", (host, hosts) => {
    expect(problemsOf({ hosts: ["ok.test", host] }, { hosts: ["ok.test", ...hosts] })).toEqual([
      `match.hosts[1]: "${host}"`,
    ]);
  });

  test("mean every host if absent", () => {
    expect(problemsOf({}, { hosts: ["a.test"] })).toEqual(["match.hosts: nothing, which is every host"]);
    expect(problemsOf({ paths: ["/x"] }, {})).toEqual([]);
  });
});

describe("paths", () => {
  const realm = { paths: ["/api/crm", "/crm"] };

  test("are within the realm by whole segments", () => {
    const paths = ["/api/crm", "/api/crm/", "/api/crm/x", "/api/crm/*", "/api/crm/x*", "/crm", "~^/crm/"];
    expect(problemsOf({ paths }, realm)).toEqual([]);
    expect(problemsOf({ paths: ["/anything", "/*", "~x"] }, { paths: ["/"] })).toEqual([]);
  });

  test("that reach outside are named, with how they would be written", () => {
    const paths = ["/api/crmx", "/api/crm*", "/api", "/*", "/CRM", "/", "~/crm/", "~^/crm"];
    expect(problemsOf({ paths }, realm)).toEqual([
      'match.paths[0]: "/api/crmx"',
      'match.paths[1]: "/api/crm*", which matches "/api/crmx"',
      'match.paths[2]: "/api"',
      'match.paths[3]: "/*"',
      'match.paths[4]: "/CRM"',
      'match.paths[5]: "/"',
      'match.paths[6]: "~/crm/", which matches "//crm/"',
      'match.paths[7]: "~^/crm", which matches "/crmx"',
    ]);
    expect(matchProblems(policyNamed("p", { match: { paths: ["/crm*"] } }).match, realmFrom(realm))[0]?.expected).toBe(
      'paths within /api/crm, /crm, written "/crm" and "/crm/*"',
    );
    expect(problemsOf({}, realm)).toEqual(["match.paths: nothing, which is every path"]);
  });
});

test("no request that a policy matches is outside a realm that the policy is within", () => {
  const label = fc.constantFrom("a", "b", "crm");
  const host = fc.array(label, { minLength: 1, maxLength: 3 }).map((labels) => `${labels.join(".")}.test`);
  const hostPattern = fc.tuple(fc.constantFrom("", "*."), host).map((parts) => parts.join(""));
  const segment = fc.constantFrom("a", "b", "ab", "é");
  const path = fc.array(segment, { minLength: 1, maxLength: 3 }).map((segments) => `/${segments.join("/")}`);
  const pathPattern = fc.oneof(
    path,
    path.map((text) => `${text}*`),
    path.map((text) => `${text}/*`),
    fc
      .tuple(fc.constantFrom("^", ""), path, fc.constantFrom("", "/", "$", "(/|$)", "/?", "[/b]", "(/b)?/", "|/b/"))
      .map((parts) => `~${parts.join("")}`),
  );
  const few = <T>(one: fc.Arbitrary<T>, minLength: number) => fc.uniqueArray(one, { minLength, maxLength: 3 });
  const request = fc.record({
    host: fc.tuple(fc.constantFrom("", "", "x.", "x"), host).map((parts) => parts.join("")),
    path: fc.tuple(path, fc.constantFrom("", "/", "x", "/b", "b/", "/é")).map((parts) => parts.join("")),
  });
  let within = 0;
  let matched = 0;
  fc.assert(
    fc.property(
      few(hostPattern, 0),
      few(path, 0),
      fc.option(few(hostPattern, 1), { nil: undefined }),
      fc.option(few(pathPattern, 1), { nil: undefined }),
      fc.array(request, { minLength: 20, maxLength: 20 }),
      (hosts, paths, ownHosts, ownPaths, requests) => {
        const match = {
          ...(ownHosts === undefined ? {} : { hosts: ownHosts }),
          ...(ownPaths === undefined ? {} : { paths: ownPaths }),
        };
        const policy = policyNamed("p", { match });
        if (matchProblems(policy.match, realmFrom({ hosts, paths })).length > 0) return;
        within += 1;
        // The realm as a policy is the index's own view of what is in it.
        const all = paths.flatMap((one) => [one, `${one}/*`]);
        const asPolicy = policyNamed("realm", {
          match: { ...(hosts.length === 0 ? {} : { hosts }), ...(all.length === 0 ? {} : { paths: all }) },
        });
        const index = indexPolicies([compilePolicy("a", policy), compilePolicy("a", asPolicy)]);
        for (const { host: asked, path: at } of requests) {
          const met = candidates(index, asked, at).filter(
            (one) => !one.policy.conditional || meets(one, at, "GET", () => false),
          );
          const names = met.map((one) => one.name);
          if (!names.includes("p")) continue;
          matched += 1;
          expect([asked, at, match, { hosts, paths }, names]).toEqual([
            asked,
            at,
            match,
            { hosts, paths },
            ["p", "realm"],
          ]);
        }
      },
    ),
    { numRuns: 5_000 },
  );
  expect(within).toBeGreaterThan(300);
  expect(matched).toBeGreaterThan(300);
});

describe("a redirect", () => {
  const realm = { paths: ["/api/crm", "/café"], redirects: ["@cached", "/internal/cheap"] };
  const problems = (onLimit: object, of: RealmDocument | undefined) => {
    const policy = policyNamed("p", { onLimit: { action: "degrade", ...onLimit } });
    return redirectProblems(policy.onLimit, of === undefined ? undefined : realmFrom(of)).map(({ path }) => path);
  };

  test.each([
    "/api/crm",
    "/api/crm/cheap?a=/../x",
    "/api/%63rm/x",
    "/caf%C3%A9/x",
    "/internal/cheap",
    "/internal/cheap?x",
    "/internal/chea%70",
  ])("to %s is within the realm", (uri) => {
    expect(problems({ uri }, realm)).toEqual([]);
  });

  test.each([
    "/",
    "/api/crmx",
    "/api/crm%78",
    "/login",
    "/internal/cheap/",
    "/internal/cheaper",
    "/internal",
    "/api//crm/x",
    "/./api/crm/",
    "/internal/./cheap",
    "/API/crm",
  ])("to %s is refused", (uri) => {
    expect(problems({ uri }, realm)).toEqual(["onLimit.uri"]);
    expect(problems({ uri }, undefined)).toEqual([]);
    expect(problems({ uri }, { hosts: ["a.test"] })).toEqual([]);
  });

  test("to a named location is refused unless the realm lists it", () => {
    expect(problems({ location: "@cached" }, realm)).toEqual([]);
    expect(problems({ location: "@other" }, realm)).toEqual(["onLimit.location"]);
    expect(problems({ location: "@other" }, {})).toEqual(["onLimit.location"]);
    expect(problems({ location: "@other" }, undefined)).toEqual([]);
    expect(problems({ response: {} }, realm)).toEqual([]);
    // This location is Sluice's own, of the private listener.
    for (const its of [undefined, {}, realm]) {
      expect(problems({ location: "@sluice_body_too_large" }, its)).toEqual(["onLimit.location"]);
    }
  });

  test.each([
    "/sluice/healthz",
    "/sluice/metrics?x",
    "/sluice",
    "/sluice/",
    "/sluice?x",
    "/Sluice/healthz",
    "/%73luice/healthz",
    "/%53%4Cuice/healthz",
    "/sluice%2Fhealthz",
    "/sluice//healthz",
    "/./sluice/healthz",
    "/.//sluice/./healthz",
    "/%2Fsluice/healthz",
    "/%2e/sluice/healthz",
    "/%252e/sluice/healthz",
    "/%2573luice/healthz",
    "/sluice/v1/check",
  ])("to %s is refused to everybody, because it is Sluice's own", (uri) => {
    expect(isReservedUri(uri)).toBe(true);
    for (const its of [undefined, {}, realm, { paths: ["/"] }]) expect(problems({ uri }, its)).toEqual(["onLimit.uri"]);
  });

  test("to what only resembles Sluice's own is allowed", () => {
    for (const uri of ["/sluices", "/x/sluice/healthz", "/sluice-x/", "/?to=/sluice/healthz", "/x%3F/sluice/"]) {
      expect([uri, isReservedUri(uri)]).toEqual([uri, false]);
    }
  });
});

describe("a realm's document", () => {
  const problems = (realm: unknown) => {
    const findings = noFindings();
    checkShape(realmShape, realm, "realm", findings);
    return findings.problems.map(({ path }) => path);
  };

  test("may have hosts, paths and redirects, each or none", () => {
    for (const realm of [
      {},
      { hosts: [], paths: [] },
      { hosts: ["*.a.test"], paths: ["/", "/a/b.c"], redirects: ["@a", "/x"] },
    ]) {
      expect(problems(realm)).toEqual([]);
    }
  });

  test("is refused with the field if it has anything else", () => {
    expect(problems({ paths: ["/a/", "/a*", "a", "/a//b", "/../a", "~^/a", "//", ""] })).toEqual(
      Array.from({ length: 8 }, (_, i) => `realm.paths[${i}]`),
    );
    expect(problems({ hosts: ["A.test", "a.test:80", "*"] })).toEqual([
      "realm.hosts[0]",
      "realm.hosts[1]",
      "realm.hosts[2]",
    ]);
    expect(problems({ redirects: ["/sluice/metrics", "cached", "/x?y", "@", "/a//b", "@sluice_x"] })).toEqual(
      Array.from({ length: 6 }, (_, i) => `realm.redirects[${i}]`),
    );
    expect(problems({ host: ["a.test"], constructor: 1 })).toEqual(["realm.constructor", "realm.host"]);
    expect(problems(["a"])).toEqual(["realm"]);
  });
});

describe("a header", () => {
  test.each([
    "authorization",
    "Cookie",
    "Set-Cookie",
    "proxy-authorization",
    "X-Forwarded-For",
    "x-forwarded-host",
    "forwarded",
    "x-real-ip",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
    "expect",
    "x-accel-redirect",
    "strict-transport-security",
  ])("%s is for admins, wherever a document sets it", (name) => {
    const line = `${name}: x`;
    const paths = (onLimit: object) => {
      // The document is a valid policy; the only question is who may set it.
      expect(validatePolicy({ ...policyNamedDocument, onLimit }).problems).toEqual([]);
      return headerProblems(onLimit).map(({ path }) => path);
    };
    expect(paths({ action: "tag", header: line })).toEqual(["onLimit.header"]);
    expect(paths({ action: "degrade", header: line })).toEqual(["onLimit.header"]);
    expect(paths({ headers: ["x-a: b", line] })).toEqual(["onLimit.headers[1]"]);
    expect(paths({ action: "delay", maxDelay: "1s", headers: [line] })).toEqual(["onLimit.headers[0]"]);
    expect(paths({ action: "degrade", response: { headers: [line] } })).toEqual(["onLimit.response.headers[0]"]);
  });

  test("that frames a message is refused to everybody", () => {
    for (const name of [
      "connection",
      "content-length",
      "host",
      "keep-alive",
      "te",
      "trailer",
      "transfer-encoding",
      "upgrade",
    ]) {
      const onLimit = { action: "tag", header: `${name}: x` };
      expect(validatePolicy({ ...policyNamedDocument, onLimit }).problems).toMatchObject([{ path: "onLimit.header" }]);
    }
  });

  test("of one's own may be set by anybody", () => {
    const onLimit = {
      headers: ["x-over-limit: 1", "content-type: text/plain", "retry-after: 5", "location: /", "x-realm: a"],
    };
    expect(headerProblems(onLimit)).toEqual([]);
    for (const odd of [undefined, null, "x", 5, { header: 5, headers: "x", response: 5 }])
      expect(headerProblems(odd)).toEqual([]);
  });
});

const policyNamedDocument = { name: "p", limits: [{ algorithm: "token-bucket", quota: 10, window: "1s" }] };
