// Requests of nothing but one piece, repeated as often as nginx accepts: Sluice fails on none of them, because a request on which it fails passes
// uncounted. Lua has bounds that short requests do not reach, such as some 8,000 results of one function and 200 captures of a pattern.

import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const pieces = [
  ...[
    "/",
    "//",
    "/.",
    "/..",
    "/a/..",
    "/;a",
    ";",
    "\\",
    "#",
    "?",
    ".",
    "a",
    "A",
    "-",
    "_",
    ":",
    "@",
    "*",
    "~",
    "^",
    "[",
    "]",
    "{",
    "(",
  ],
  ...[
    "&",
    "=",
    "a=&",
    "user=ann&",
    "user=&",
    "=;",
    ",",
    ", ",
    "a,",
    '"',
    '\\"',
    '{"a":',
    "[[",
    "a=b;",
    "a=b; ",
    " ",
    "\t",
    " a",
    "\x80",
    "\xe2\x80\x8b",
  ],
  ...["%", "%2", "%2F", "%2e", "%2f..", "%00", "%25", "%3B", "%23", "%u0061", "%c3%a9", "%80", "+", "."],
  ...[
    "Bearer ",
    "Basic ",
    "eyJ9.",
    "e30.",
    "e30.e30.e30 ",
    "ann,",
    "1",
    "9",
    "0.",
    "-1",
    "1e",
    "multipart/form-data; boundary=",
    "charset=utf-8;",
  ],
];

const headers = [
  "Cookie",
  "Authorization",
  "X-User",
  "Content-Type",
  "X-Cost",
  "X-Plan",
  "User-Agent",
  "Accept",
  "Host",
];

const limits = [{ algorithm: "fixed-window", quota: 1_000_000_000, window: "366d" }];
const counting = (name: string, more: object) => ({ name, onMissingKey: "shared", limits, ...more });
/** nginx accepts lines of 8 KiB: this leaves room for the method, the version or the name of a header. */
const lineBytes = 8_150;

let gateway: LoneGateway;
beforeAll(async () => {
  const keys = [
    "form:user",
    "query:user",
    "cookie:user",
    "header:x-user",
    "header:authorization",
    "jwt:sub",
    "path",
    "host",
  ];
  const more = ["var:args", "var:cookie_user", "var:arg_user", "header:user-agent", "ip"];
  gateway = await LoneGateway.start({
    policies: [
      ...[...keys, ...more].map((part, i) => counting(`key-${i}`, { key: [part] })),
      counting("paths", {
        match: { paths: ["/login", "/login/*", "~^/(a|b)+/[^/]*$"], hosts: ["a.test"] },
        key: ["ip"],
      }),
      counting("headers", {
        match: { paths: ["/*"], headers: { "x-user": ["ann", "bob"], accept: ["a"] } },
        key: ["ip"],
      }),
      counting("cost", { cost: { from: "header:x-cost", default: 1, max: 3 }, key: ["ip"] }),
      counting("plan", {
        limits: undefined,
        plans: { free: limits },
        planBy: "header:x-plan",
        defaultPlan: "free",
        key: ["ip"],
      }),
      counting("exempt", { key: ["header:x-user"], exempt: { keys: [["a*"]] } }),
    ],
  });
  expect(await health()).toMatchObject({ status: "ok", errors: {} });
});
afterAll(() => gateway?.stop());

const health = async () => JSON.parse((await ask(`${gateway.privateUrl}/sluice/healthz`)).body);

async function statusOf(request: string): Promise<string> {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write(Buffer.from(request, "latin1"));
  // nginx may close the connection before it has read everything; what it has said is there.
  return (await text(socket).catch(() => "")).slice("HTTP/1.1 ".length, "HTTP/1.1 200".length);
}

const requestOf = (target: string, lines: readonly string[], body = "") =>
  [`${body === "" ? "GET" : "POST"} ${target} HTTP/1.1`, ...lines, "Connection: close", "", body].join("\r\n");

it.each(pieces)("requests of nothing but %j fail nowhere", async (piece) => {
  const before = await health();
  const long = (bytes: number) => piece.repeat(Math.floor(bytes / piece.length));
  const form = `user=${long(65_000)}`;
  const typed = (type: string) => ["Host: a.test", `Content-Type: ${type}`, `Content-Length: ${form.length}`];
  const requests = [
    ...["/", "/login", "/?", "/?user=", "/#"].map((begin) => requestOf(begin + long(lineBytes), ["Host: a.test"])),
    ...headers.map((name) =>
      requestOf("/", [...(name === "Host" ? [] : ["Host: a.test"]), `${name}: ${long(lineBytes)}`]),
    ),
    requestOf("/", ["Host: a.test", ...Array(3).fill(`Cookie: ${long(lineBytes)}`)]),
    requestOf("/", ["Host: a.test", ...Array(3).fill(`X-User: ${long(lineBytes)}`)]),
    ...["application/x-www-form-urlencoded", "application/json", "multipart/form-data; boundary=a"].map((type) =>
      requestOf("/", typed(type), form),
    ),
  ];
  const statuses = await Promise.all(requests.map(statusOf));
  for (const status of statuses) expect(["", "200", "400", "403", "404", "405", "414"]).toContain(status);
  expect((await health()).errors).toEqual(before.errors);
});
