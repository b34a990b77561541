// "Try it" of the console says what a gateway does: random requests meet random policies in a real nginx, whose debugging header names the
// policies that were met, with the key of each and what became of it; the console's own answer must be the same.

import { request as send } from "node:http";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import type { MadeUpRequest } from "../../console/src/trial/request.ts";
import { tryPolicy } from "../../console/src/trial/trial.ts";
import { days } from "../../limiter/src/document/schedule.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const secret = "who may see why, may see it";
const policiesAtOnce = 16;
const requestsOfSet = 400;

const some = <Value>(values: readonly Value[], most = 2) => fc.subarray([...values], { minLength: 1, maxLength: most });
/** Not today, whatever the time is. */
const farDay = days[(new Date().getUTCDay() + 2) % 7] ?? "";
const hosts = ["shop.example", "a.shop.example", "*.shop.example", "*.example"];
const paths = ["/a", "/a/*", "/a/b", "/A", "/*", "~^/v[0-9]+/", "~b$", "/caf%C3%A9"].map((path) =>
  decodeURIComponent(path),
);
const methods = ["GET", "POST", "DELETE"];
const parts = [
  "ip",
  "ip/8/8",
  "path",
  "host",
  "method",
  "const:all",
  "header:x-user",
  "header:authorization",
  "cookie:sid",
  "query:user",
  "form:user",
  "jwt:sub",
  "jwt:org.id",
];

const policies = fc.array(
  fc.record(
    {
      match: fc.record(
        {
          hosts: some(hosts),
          paths: some(paths),
          methods: some(methods),
          headers: fc.dictionary(fc.constantFrom("x-plan", "x-eu"), some(["free", "trial"]), {
            minKeys: 1,
            maxKeys: 2,
          }),
        },
        { requiredKeys: [] },
      ),
      key: fc.subarray(parts, { maxLength: 2 }),
      onMissingKey: fc.constantFrom("skip", "deny", "shared"),
      mode: fc.constantFrom("enforce", "enforce", "shadow", "off"),
      priority: fc.integer({ min: 0, max: 3 }),
      exempt: fc.constantFrom({ cidrs: ["127.0.0.0/8"] }, { cidrs: ["10.0.0.0/8"] }),
      schedule: fc.constantFrom(
        { timezone: "UTC", windows: [{ from: "00:00", to: "24:00" }] },
        { timezone: "UTC", windows: [{ days: [farDay], from: "00:00", to: "24:00" }] },
      ),
      cost: fc.constantFrom(
        2,
        { from: "header:x-cost", default: 3, max: 50 },
        { from: "request-bytes", default: 1, max: 100 },
      ),
    },
    { requiredKeys: ["key"] },
  ),
  { minLength: policiesAtOnce, maxLength: policiesAtOnce },
);

const form = "application/x-www-form-urlencoded";
const token = (payload: object) => `x.${Buffer.from(JSON.stringify(payload)).toString("base64url")}.y`;
const header = <Value>(values: readonly Value[]) => fc.option(fc.constantFrom(...values), { nil: undefined });
const requests = fc.record({
  method: fc.constantFrom(...methods),
  host: fc.constantFrom("shop.example", "a.shop.example", "b.a.shop.example", "example", "other.test"),
  target: fc.constantFrom(
    ...[
      "/a",
      "/a/",
      "//a",
      "/a/b",
      "/a/./b",
      "/a;x=1/b",
      "/;x/a",
      "/a/x/../b?user=ann",
      "/%61?user=ann&user=ben",
      "/v12/b?user=a%20b",
      "/v1/?user=a;b=c",
    ],
    ...[
      "/",
      "/b?user=",
      "/A?user=a+b",
      "/caf%C3%A9",
      "/caf%ff",
      "/a?user=ann&user=ann",
      "/a?us%65r=x%2Fy",
      "/a/.?x",
      "/a/..",
    ],
  ),
  "x-user": header([["ann"], ["ben"], ["ann", "ben"], [""]]),
  "x-plan": header([["free"], ["paid"], ["paid", "trial"]]),
  "x-eu": header([["trial"], ["TRIAL"]]),
  "x-cost": header([["7"], ["051"], ["51"]]),
  authorization: header([
    [`Bearer ${token({ sub: "ann", org: { id: 7 } })}`],
    [`bearer  ${token({ sub: 1234567890123 })}`],
    ["Basic YTpi"],
    ["Bearer x"],
  ]),
  cookie: header([["sid=1"], ["a=b; sid=two"], ["sid=1; sid=2"]]),
  "content-type": header([[form], [form], [`${form}; charset=utf-16`], ["text/plain"]]),
  "content-encoding": header([["gzip"], ["identity"], ["identity"]]),
  body: fc.constantFrom("", "user=ann", "user=ann", "a=1&us%65r=a+b", "user=ann&user=ben", "user=%zz", "user"),
});

let gateway: LoneGateway | undefined;
afterEach(() => gateway?.stop());

/** What a policy did with a request, as the debugging header and the console both can say it. */
interface Met {
  readonly name: string;
  readonly key?: string;
  readonly what: string;
}

describe.each([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])("random policies, seed %i", (seed) => {
  it(`${requestsOfSet} requests meet the same policies by the console and in nginx`, async () => {
    const [drawn = []] = fc.sample(policies, { numRuns: 1, seed });
    const documents = drawn.map((policy, i) => ({
      name: `p${i}`,
      // Nothing is refused by a limit: that is another test.
      limits: [{ algorithm: "fixed-window", quota: 1_000_000, window: "366d" }],
      ...policy,
    }));
    gateway = await LoneGateway.start({ policies: documents, env: { SLUICE_DEBUG_SECRET: secret } });
    const inOrder = [...documents].sort((a, b) => (b.priority ?? 0) - (a.priority ?? 0) || (a.name < b.name ? -1 : 1));
    for (const { method, host, target, body, ...headers } of fc.sample(requests, { numRuns: requestsOfSet, seed })) {
      const lines = Object.entries(headers).flatMap(([name, values]) =>
        (values ?? []).map((value) => ({ name, value })),
      );
      const request: MadeUpRequest = { method, host, target, headers: lines, body, address: "127.0.0.1" };
      const isTurnedAway = inOrder.some((one) => {
        const trial = tryPolicy(one, request, Date.now());
        return trial?.outcome === "denied" && trial.why === "key-ambiguous" && trial.what === "path";
      });
      const expected = isTurnedAway ? [] : metBy(inOrder, request);
      expect(await metAt(gateway.url, request), JSON.stringify(request)).toEqual(expected);
    }
  });
});

function metBy(documents: readonly { readonly name: string }[], request: MadeUpRequest): Met[] {
  const met: Met[] = [];
  for (const document of documents) {
    const trial = tryPolicy(document, request, Date.now());
    if (trial === undefined) throw new Error(`invalid: ${JSON.stringify(document)}`);
    const { name } = document;
    if (trial.outcome === "counts") {
      const values = trial.key.filter((value) => value !== undefined);
      // A path that is no UTF-8 is a key that the console cannot write.
      const isKnown = values.length === trial.key.length;
      met.push({ name, key: isKnown ? encoded(values) : expect.any(String), what: "counted" });
    } else if (trial.outcome === "denied") {
      met.push({ name, what: trial.why });
      return met;
    } else if (["schedule", "exempt-address", "key-missing", "key-ambiguous", "cost-invalid"].includes(trial.why)) {
      met.push({ name, what: trial.why });
    }
  }
  return met;
}

/** As counters have it: all values but the last one with their lengths. */
function encoded(values: readonly string[]): string {
  const last = values.at(-1) ?? "";
  const before = values.slice(0, -1).map((value) => `${Buffer.byteLength(value)}:${value}`);
  return `${values.length}:${before.join("")}${last}`;
}

function metAt(url: string, { method, host, target, headers, body = "" }: MadeUpRequest): Promise<Met[]> {
  const lines: Record<string, string | string[]> = { host, "x-sluice-debug": secret };
  for (const { name, value } of headers) lines[name] = [...[lines[name] ?? []].flat(), value];
  if (body !== "") lines["content-length"] = `${body.length}`;
  return new Promise((resolve, reject) => {
    const outgoing = send(url, { method, path: target, headers: lines, agent: false }, (answer) => {
      answer.resume();
      const reported = [answer.headers["x-sluice-debug"] ?? []].flat().join(", ");
      resolve(readReport(reported));
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

function readReport(text: string): Met[] {
  return [...text.matchAll(/default\/(p\d+); \w+; \w+(?:; key=([^;]*))?; ([^,;]+)/g)].map(
    ([, name = "", key, outcome = ""]) => {
      const what = { off: "schedule", exempt: "exempt-address" }[outcome] ?? outcome;
      if (key === undefined) return { name, what };
      return { name, key: percentDecoded(key), what: /^(charged|allowed|shadow)/.test(what) ? "counted" : what };
    },
  );
}

function percentDecoded(text: string): string {
  const bytes = text.replace(/%(..)/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
  return Buffer.from(bytes, "latin1").toString();
}
