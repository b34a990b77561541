// When many policies read the headers of a request, all lines are read at once. Each header means to them what it means to a policy that
// reads it alone.

import { connect } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const limits = [{ algorithm: "fixed-window", quota: 1, window: "1d" }];

/** The policies of a path: one, and behind nineteen others that read other headers. */
const alone = (name: string, more: object) => [
  { name: `${name}-alone`, match: { paths: [`/${name}/alone`] }, key: ["ip"], onMissingKey: "skip", limits, ...more },
];
const among = (name: string, more: object) => [
  ...Array.from({ length: 19 }, (_, i) => ({
    name: `${name}-other-${i}`,
    match: { paths: [`/${name}/among`] },
    key: [`header:x-other-${i}`],
    mode: "shadow",
    priority: 1,
    limits,
  })),
  { name: `${name}-among`, match: { paths: [`/${name}/among`] }, key: ["ip"], onMissingKey: "skip", limits, ...more },
];
const kinds: Record<string, (path: string) => object> = {
  header: () => ({ key: ["header:x-user"] }),
  variable: () => ({ key: ["var:http_x_user"] }),
  capitals: () => ({ key: ["var:HTTP_X_USER"] }),
  authorization: () => ({ key: ["header:authorization"] }),
  jwt: () => ({ key: ["jwt:sub"] }),
  host: () => ({ key: ["header:host"] }),
  agent: () => ({ key: ["header:user-agent"] }),
  matched: (path) => ({ match: { paths: [path], headers: { "x-user": ["ann"] } }, key: ["const:x"] }),
  cost: () => ({ cost: { from: "header:x-user", default: 1, max: 1 }, key: ["const:x"] }),
  form: () => ({ key: ["form:user"] }),
};

let gateway: LoneGateway;
beforeAll(async () => {
  const policies = Object.entries(kinds).flatMap(([name, more]) => [
    ...alone(name, more(`/${name}/alone`)),
    ...among(name, more(`/${name}/among`)),
  ]);
  gateway = await LoneGateway.start({
    policies,
    workers: 1,
    edit: (config) => config.replace("http {", "http {\n  underscores_in_headers on;"),
  });
});
afterAll(() => gateway?.stop());

function statusOf(path: string, lines: readonly string[], body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
    let answer = "";
    socket.on("data", (data) => (answer += data.toString("latin1")));
    socket.on("error", reject);
    socket.on("close", () => resolve(answer.split(" ", 2)[1] ?? ""));
    const head = [`POST ${path} HTTP/1.1`, "Connection: close", `Content-Length: ${body.length}`, ...lines].join(
      "\r\n",
    );
    socket.write(Buffer.from(`${head}\r\n\r\n${body}`, "latin1"));
  });
}

const ann = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.";
const host = "Host: x";
const requests: [string, string[], string?][] = [
  ["nothing", [host]],
  ["one line", [host, "X-User: ann"]],
  ["blanks around it", [host, "X-User: \t ann\t \xa0"]],
  ["a comma within it", [host, "X-User: ann, bob"]],
  ["no text", [host, "X-User:"]],
  ["two lines", [host, "X-User: ann", "X-User: bob"]],
  ["two lines of the same", [host, "X-User: ann", "X-User: ann"]],
  ["two lines without text", [host, "X-User:", "X-User:"]],
  ["a name with _", [host, "X_User: ann"]],
  ["names with - and _", [host, "X-User: ann", "X_User: ann"]],
  ["a name in capitals", [host, "X-USER: ann"]],
  ["a longer name", [host, "X-Users: ann"]],
  ["a number", [host, "X-User: 1"]],
  ["a token", [host, `Authorization: Bearer ${ann}`]],
  ["a token behind blanks", [host, `Authorization: Bearer \t ${ann}`]],
  ["two tokens", [host, `Authorization: Bearer ${ann}`, `Authorization: Bearer ${ann}`]],
  ["credentials", [host, "Authorization: Basic YTpi"]],
  ["another host", ["Host: y"]],
  ["an agent", [host, "User-Agent: ann"]],
  ["a form", [host, "Content-Type: application/x-www-form-urlencoded"], "user=ann"],
  [
    "a form of two types",
    [host, "Content-Type: application/x-www-form-urlencoded", "Content-Type: text/plain"],
    "user=ann",
  ],
  [
    "a form that is encoded",
    [host, "Content-Type: application/x-www-form-urlencoded", "Content-Encoding: gzip"],
    "user=ann",
  ],
  ["a body that is no form", [host, "Content-Type: text/plain"], "user=ann"],
];

it.each(Object.keys(kinds))("%s: a policy among twenty reads of every request what it reads alone", async (kind) => {
  const statuses = async (path: string) => {
    const answers: Record<string, string> = {};
    for (const [what, lines, body = ""] of requests) answers[what] = await statusOf(path, lines, body);
    return answers;
  };
  const read = await statuses(`/${kind}/alone`);
  expect(await statuses(`/${kind}/among`)).toEqual(read);
  // Otherwise it would be the same because nothing is read at all.
  expect(new Set(Object.values(read)).size).toBeGreaterThan(1);
});
