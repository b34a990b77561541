// Makes requests as bytes: whole ones with odd parts, and ones whose bytes have been changed. The policies that read them are
// in heads.ts.

import fc from "fast-check";
import { namesOfPrototypes } from "../fixtures/documents/names-of-prototypes.ts";
import { byteChanges, changedBytes, hostileTexts, seldom } from "./hostile.ts";

const base64Url = (text: string) => Buffer.from(text).toString("base64url");

const oddClaims = [
  '{"sub":"ann"}',
  '{"sub":{"a":1}}',
  '{"sub":null}',
  '{"sub":1e400}',
  '{"sub":"\\u0000"}',
  '{"sub":"\\ud800"}',
  '{"sub":true}',
  '{"sub":"a","sub":"b"}',
  "[]",
  "null",
  "{",
  `{"sub":${"[".repeat(1500)}`,
  `{"sub":"${"x".repeat(6000)}"}`,
  '{"__proto__":{"sub":"a"}}',
];

const tokens = fc.oneof(
  fc.constantFrom(...oddClaims).map((claims) => `${base64Url('{"alg":"none"}')}.${base64Url(claims)}.x`),
  fc.constantFrom("", "a", "a.b", "..", "a..b", "a.!!!.c", "a.=.c", `a.${"A".repeat(4001)}.b`, "a.YQ.b"),
);

const bearer = fc
  .tuple(fc.constantFrom("Bearer ", "bearer ", "BEARER  ", "Bearer\t", "Bearer", "Basic ", ""), tokens)
  .map(([scheme, token]) => `${scheme}${token}`);

const cookies = fc
  .array(
    fc.constantFrom(
      ...[
        "sid=a",
        "sid =a",
        "\tsid=a",
        "sid= a ",
        'sid="a"',
        "sid=%61",
        "SID=a",
        "sid",
        "=a",
        "sid=",
        "sid=a=b",
        "sid=\x01",
        "a=b",
      ],
      ...["$Version=1", "sid=a,b", "__proto__=a", "sid=a\\;b", "sid=\xe9"],
    ),
    { minLength: 1, maxLength: 4 },
  )
  .chain((parts) => fc.constantFrom("; ", ";", ";;", ", ", " ").map((between) => parts.join(between)));

const hosts = fc.constantFrom(
  ...[
    "x",
    "PATHS.example",
    "paths.example:80",
    "paths.example.",
    "[::1]",
    "[::1",
    "a_b",
    "",
    "a b",
    "a\tb",
    "a/b",
    "a@b",
    "a,b",
    "xn--a",
  ],
  ...["1.2.3.4", "x".repeat(300), "\xff", "..", "a..b"],
);

const texts = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom("a", "free", "vip-1", "health", "1", "0", "-1", "1.5", "1e3", " 1", "2147483649", "NaN"),
  },
  { weight: 2, arbitrary: hostileTexts.map(withoutLines) },
  {
    weight: 1,
    arbitrary: fc.constantFrom("x".repeat(3000), "x".repeat(9000), "x".repeat(40_000), "\x80\xff", "a\x7fb", "\t", ""),
  },
);

/** Removes line ends, which would begin another header; those come too, as one of the changes to bytes. */
function withoutLines(text: string): string {
  return text.replace(/[\r\n\0]/g, "");
}

const header = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.tuple(fc.constantFrom("X-User", "x-user", "X-USER", "X-Cost", "x-cost", "X-Plan"), texts),
  },
  { weight: 2, arbitrary: cookies.map((text) => ["Cookie", text] as [string, string]) },
  { weight: 2, arbitrary: bearer.map((text) => ["Authorization", text] as [string, string]) },
  { weight: 1, arbitrary: hosts.map((text) => ["Host", text] as [string, string]) },
  {
    weight: 2,
    arbitrary: fc.constantFrom<[string, string]>(
      ["Content-Length", "5"],
      ["Content-Length", "0"],
      ["Content-Length", "-1"],
      ["Content-Length", "99999999999999999999"],
      ["Content-Length", "5, 5"],
      ["Transfer-Encoding", "chunked"],
      ["Transfer-Encoding", "gzip, chunked"],
      ["Transfer-Encoding", "\tchunked"],
      ["Expect", "100-continue"],
      ["Expect", "x"],
      ["Connection", "close"],
      ["Connection", "X-User, close"],
      ["Connection", "upgrade"],
      ["Upgrade", "websocket"],
      ["Upgrade", "h2c"],
      ["Range", "bytes=0-0, 1-1"],
      ["Content-Type", "application/x-www-form-urlencoded"],
      ["Content-Type", "application/x-www-form-urlencoded; charset=utf-16"],
      ["Content-Type", "multipart/form-data; boundary=b"],
      ["Content-Type", "multipart/form-data"],
      ["X-HTTP-Method-Override", "DELETE"],
      ["TE", "trailers"],
      ["X User", "a"],
      ["", "a"],
      ["X-User\t", "a"],
      ["X_User", "a"],
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom(...namesOfPrototypes).map((name) => [name, "a"] as [string, string]) },
);

const manyHeaders = fc
  .tuple(fc.constantFrom(90, 120, 400), fc.constantFrom("X-Filler", "X-User", "Cookie"))
  .map(([count, name]) => Array.from({ length: count }, (_, i): [string, string] => [name, `f${i}=${i}`]));

export const paths = [
  "/ip",
  "/header",
  "/cookie",
  "/query",
  "/jwt",
  "/path/a",
  "/var",
  "/cost",
  "/bytes",
  "/match",
  "/terms",
  "/re/abc9",
];

const query = fc.oneof(
  { weight: 2, arbitrary: fc.constant("") },
  {
    weight: 3,
    arbitrary: fc
      .array(
        fc.constantFrom(
          ...[
            "user=a",
            "user=%61",
            "us%65r=a",
            "USER=a",
            "user",
            "user=",
            "=a",
            "&",
            "user=%",
            "user=%zz",
            "user=%00",
            "user[]=a",
          ],
          ...["user=a+b", "user=%e9", ";user=a", "user==a", "__proto__=a", `user=${"x".repeat(5000)}`],
        ),
        { minLength: 1, maxLength: 4 },
      )
      .map((parts) => `?${parts.join("&")}`),
  },
  { weight: 1, arbitrary: fc.constant(`?${Array.from({ length: 150 }, (_, i) => `a${i}=b`).join("&")}&user=a`) },
);

const targets = fc.oneof(
  { weight: 12, arbitrary: fc.tuple(fc.constantFrom(...paths), query).map(([path, asked]) => path + asked) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(
        fc.constantFrom(...paths),
        fc.constantFrom(
          "%2e%2e/",
          "//",
          "/./",
          "%00",
          "%",
          "%zz",
          "/../..",
          "\\",
          ";x",
          "%5c",
          "#a",
          "%C0%AF",
          "\xff",
          "%u0041",
          "é",
        ),
      )
      .map(([path, odd]) => path + odd),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ...[
        "*",
        "x:80",
        "http://paths.example/ip",
        "http://a b/ip",
        "HTTP://x/ip?user=a",
        "http://",
        "http:///ip",
        "https://x:99999/ip",
      ],
      ...[
        "/",
        "",
        "ip",
        "//x/ip",
        "/sluice/healthz",
        "/sluice/../ip",
        `/${"a".repeat(9000)}`,
        `/path/${"a/".repeat(2000)}`,
        "?user=a",
      ],
    ),
  },
);

const methods = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("GET", "POST", "HEAD") },
  { weight: 1, arbitrary: fc.constantFrom("PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND") },
  {
    weight: 1,
    arbitrary: fc.constantFrom("TRACE", "CONNECT", "get", "G", "", "A-B", "X".repeat(5000), "__proto__", "GET\t"),
  },
);

const versions = fc.oneof(
  { weight: 8, arbitrary: fc.constant("HTTP/1.1") },
  { weight: 2, arbitrary: fc.constant("HTTP/1.0") },
  {
    weight: 1,
    arbitrary: fc.constantFrom("", "HTTP/0.9", "HTTP/2.0", "HTTP/1.2", "HTTP/11", "http/1.1", "HTTP/1.1 x", "FTP/1.1"),
  },
);

const bodies = fc.oneof(
  { weight: 4, arbitrary: fc.constant("") },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ...[
        "user=a",
        "5\r\nhello\r\n0\r\n\r\n",
        "0\r\n\r\n",
        "fffffffffffffffff\r\nx",
        "-1\r\n",
        "5;a=b\r\nhello\r\n0\r\nX-User: a\r\n\r\n",
      ],
      ...["hello", "\x00\x01", "--b\r\nContent-Disposition: form-data; name=user\r\n\r\na\r\n--b--\r\n"],
    ),
  },
);

interface Head {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
  readonly lineEnd: string;
}

const heads: fc.Arbitrary<Head> = fc.record({
  method: methods,
  target: targets,
  version: versions,
  headers: fc.oneof(
    { weight: 12, arbitrary: fc.array(header, { maxLength: 6 }) },
    { weight: 1, arbitrary: manyHeaders },
  ),
  body: bodies,
  lineEnd: fc.oneof(
    { weight: 12, arbitrary: fc.constant("\r\n") },
    { weight: 1, arbitrary: fc.constantFrom("\n", "\r", "\r\n ") },
  ),
});

function bytesOf({ method, target, version, headers, body, lineEnd }: Head): Buffer {
  const lines = [
    `${method} ${target}${version === "" ? "" : ` ${version}`}`,
    ...(headers.some(([name]) => name === "Host") ? [] : ["Host: x"]),
    ...headers.map(([name, value]) => `${name}: ${value}`),
    "",
    body,
  ];
  return Buffer.from(lines.join(lineEnd), "latin1");
}

/** The bytes that go over one connection. */
export interface Exchange {
  readonly bytes: Buffer;
  /** Where the bytes are cut in two, with a pause between the parts. */
  readonly cutAt: number | undefined;
}

const insertedTokens = ["\r\n", "\r", "\0", " ", ":", "X-User: a\r\n", "HTTP/1.1", "GET / HTTP/1.1\r\n\r\n"];
const changedHeads = fc
  .tuple(heads, fc.array(byteChanges(insertedTokens), { maxLength: 3 }))
  .map(([head, by]) => changedBytes(bytesOf(head), ...by));

const piped = fc.array(heads.map(bytesOf), { minLength: 2, maxLength: 12 }).map((several) => Buffer.concat(several));

/** Many exchanges run at once, since some wait for bytes that never come. */
export const exchanges: fc.Arbitrary<readonly Exchange[]> = fc.array(
  fc.record({
    bytes: fc.oneof(
      { weight: 6, arbitrary: heads.map(bytesOf) },
      { weight: 4, arbitrary: changedHeads },
      { weight: 1, arbitrary: piped },
    ),
    cutAt: seldom(fc.nat(2000), 6),
  }),
  { minLength: 1, maxLength: 12 },
);
