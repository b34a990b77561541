// Tries what a client may do so that its requests are counted elsewhere or not at all. Each test is named after the abuse.

import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const quota = 1_000_000;
const counting = (name: string, key: string[], match: object = { paths: [`/${name}`] }) => ({
  name,
  match,
  key,
  onMissingKey: "deny",
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});

/** nginx believes X-Forwarded-For from this peer alone. */
const trusted = "127.0.0.9";

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      counting("ip", ["ip"]),
      counting("host", [], { hosts: ["all.example"] }),
      counting("path", ["path"], { hosts: ["paths.example"] }),
      counting("pair", ["header:x-a", "header:x-b"]),
      counting("user", ["header:x-user"]),
      counting("get", [], { paths: ["/method"], methods: ["GET"] }),
      {
        name: "days",
        match: { paths: ["/days"] },
        limits: [{ algorithm: "leaky-bucket", quota: 1, window: "1d", burst: 100 }],
      },
    ],
    edit: (config) =>
      config.replace("access_log off;", `access_log off; set_real_ip_from ${trusted}; real_ip_header X-Forwarded-For;`),
  });
});
afterAll(() => gateway?.stop());

interface Sent {
  readonly lines?: readonly string[];
  readonly host?: string;
  readonly method?: string;
  readonly from?: string;
}

async function send(target: string, { lines = [], host = "x", method = "GET", from }: Sent = {}): Promise<string> {
  const port = Number(new URL(gateway.url).port);
  const socket = connect({ port, host: "127.0.0.1", ...(from === undefined ? {} : { localAddress: from }) });
  socket.write([`${method} ${target} HTTP/1.1`, `Host: ${host}`, "Connection: close", ...lines, "", ""].join("\r\n"));
  return text(socket);
}

/** @returns how many requests with this one's key have been counted, this one included; NaN if no policy counted it */
async function countOf(target: string, sent?: Sent): Promise<number> {
  return quota - Number(/^X-RateLimit-Remaining: (\d+)/im.exec(await send(target, sent))?.[1] ?? Number.NaN);
}

describe("an address", () => {
  it("is not taken from what an untrusted peer writes: X-Forwarded-For, X-Real-IP, Forwarded, Connection: X-Real-IP", async () => {
    const spoofed = [
      ["X-Forwarded-For: 192.0.2.1"],
      ["X-Real-IP: 192.0.2.2"],
      ["Forwarded: for=192.0.2.3"],
      ["X-Real-IP: 192.0.2.4", "Connection: X-Real-IP"],
      ["X-Forwarded-For: 127.0.0.9, 192.0.2.5", "X-Forwarded-For: 192.0.2.6", "True-Client-IP: 192.0.2.7"],
    ];
    const counts: number[] = [];
    for (const lines of spoofed) counts.push(await countOf("/ip", { lines }));
    expect(counts).toEqual([1, 2, 3, 4, 5]);
  });

  it("counts as its IPv6 /64, and ::ffff:a.b.c.d counts as a.b.c.d", async () => {
    const of = (address: string) => countOf("/ip", { from: trusted, lines: [`X-Forwarded-For: ${address}`] });
    expect(await of("2001:db8:1:2::1")).toBe(1);
    expect(await of("2001:db8:1:2:ffff:ffff:ffff:ffff")).toBe(2);
    expect(await of("2001:DB8:1:2:0:0:0:3")).toBe(3);
    expect(await of("2001:db8:1:3::1")).toBe(1);
    expect(await of("192.0.2.77")).toBe(1);
    expect(await of("::ffff:192.0.2.77")).toBe(2);
    expect(await of("::ffff:c000:24d")).toBe(3);
  });
});

describe("a path", () => {
  it("has one bucket in the spellings //, /./, /x/../, %2e, %2F, %62, ;x and ?", async () => {
    const spellings = ["/books", "//books", "/./books", "/x/../books", "/%2e/books", "/%2Fbooks", "/%62ooks"];
    spellings.push("/books?a=1", "/x/%2e%2e/books", "/books;x", "/;x/books");
    const counts: number[] = [];
    for (const path of spellings) counts.push(await countOf(path, { host: "paths.example" }));
    expect(counts).toEqual(spellings.map((_, i) => i + 1));
  });

  it("that differs for the service (case, trailing slash, ;x) is still counted by a policy for all paths", async () => {
    const paths = ["/books", "/BOOKS", "/books/", "/books;x", "/books%3Bx", "/books%23", "/books%3F"];
    const counts: number[] = [];
    for (const path of paths) counts.push(await countOf(path, { host: "all.example" }));
    expect(counts).toEqual(paths.map((_, i) => i + 1));
  });

  it("with %00 reaches no service", async () => {
    expect(await send("/books%00", { host: "all.example" })).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe("a key", () => {
  it("of several parts is another key for every way to cut its text, whatever the delimiter", async () => {
    const delimiters = [":", ",", "|", "/", ";", "=", "&", "\\", "%", "{", "}", '"', "'", " . ", "1:a", "%3A", "{x}"];
    for (const delimiter of delimiters) {
      const ways = [
        [`a${delimiter}b`, "c"],
        ["a", `b${delimiter}c`],
        [`a${delimiter}b${delimiter}c`, delimiter.trim()],
      ];
      for (const [a, b] of ways) {
        const lines = [`X-A: ${a}`, `X-B: ${b}`];
        expect([lines, await countOf("/pair", { lines })]).toEqual([lines, 1]);
      }
    }
  });

  it("of 8 KB is counted, and differs from one with another last byte", async () => {
    const long = "k".repeat(8000);
    const of = (value: string) => countOf("/user", { lines: [`X-User: ${value}`] });
    expect([await of(`${long}a`), await of(`${long}a`), await of(`${long}b`)]).toEqual([1, 2, 1]);
  });

  it("is found behind 120 other headers", async () => {
    const lines = [...Array.from({ length: 120 }, (_, i) => `X-Filler-${i}: ${i}`), "X-User: hundredth"];
    expect(await countOf("/user", { lines })).toBe(1);
    expect(await countOf("/user", { lines: ["X-User: hundredth"] })).toBe(2);
  });

  it("cannot smuggle in a line: CR and LF end nothing but the header", async () => {
    const answer = await send("/user", { lines: ["X-User: a\rSet-Cookie: x=1"] });
    expect(answer).not.toMatch(/^Set-Cookie/im);
    expect(await send("/user?%0d%0aSet-Cookie:%20x=1", { lines: ["X-User: b"] })).not.toMatch(/^Set-Cookie/im);
    expect(gateway.log).not.toMatch(/^Set-Cookie/m);
  });
});

test("X-HTTP-Method-Override does not change the method", async () => {
  expect(await countOf("/method")).toBe(1);
  expect(await countOf("/method", { lines: ["X-HTTP-Method-Override: POST"] })).toBe(2);
  expect(await countOf("/method", { method: "HEAD", lines: ["X-HTTP-Method-Override: GET"] })).toBeNaN();
});

test("a leaky-bucket of days delays no request for days: it refuses, with Retry-After", async () => {
  expect(await send("/days")).toMatch(/^HTTP\/1\.1 404 /);
  const answer = await send("/days");
  expect(answer).toMatch(/^HTTP\/1\.1 429 /);
  expect(Number(/^Retry-After: (\d+)/im.exec(answer)?.[1])).toBeGreaterThan(86_000);
});
