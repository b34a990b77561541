// Tests in nginx itself which value a request has for each part of a key: repeated, in other spellings, damaged.

import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const perPart = (name: string, part: string) => ({
  name,
  match: { paths: [`/${name}`] },
  key: [part],
  onMissingKey: "deny",
  limits: [{ algorithm: "fixed-window", quota: 1_000_000, window: "366d" }],
});

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      perPart("header", "header:x-user"),
      perPart("cookie", "cookie:user"),
      perPart("query", "query:user"),
      perPart("sub", "jwt:sub"),
      perPart("realm", "jwt:realm.id"),
      { ...perPart("several", "header:x-tenant"), key: ["header:x-tenant", "header:x-user"], onMissingKey: "shared" },
    ],
  });
});
afterAll(() => gateway?.stop());

/** @returns how many requests with these lines' key were counted, this one included; undefined if they have no key */
async function countOf(target: string, ...lines: string[]): Promise<number | undefined> {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
  socket.write([`GET ${target} HTTP/1.1`, "Host: x", "Connection: close", ...lines, "", ""].join("\r\n"));
  const answer = await text(socket);
  if (answer.startsWith("HTTP/1.1 403 ")) return undefined;
  return 1_000_000 - Number(/^X-RateLimit-Remaining: (\d+)/im.exec(answer)?.[1]);
}

const unsigned = (payload: unknown) =>
  `Authorization: Bearer e30.${Buffer.from(typeof payload === "string" ? payload : JSON.stringify(payload)).toString("base64url")}.c2ln`;

describe("a query parameter", () => {
  it("is read by its name", async () => {
    expect(await countOf("/query?user=ann")).toBe(1);
    expect(await countOf("/query?users=junk2&user=ann")).toBe(2);
    expect(await countOf("/query?a=1&xuser=junk3&user=ann&b=2")).toBe(3);
  });

  it("is the same in every spelling of its value and its name", async () => {
    expect(await countOf("/query?user=b%6fb+1")).toBe(1);
    expect(await countOf("/query?user=bob%201")).toBe(2);
    expect(await countOf("/query?%75ser=b%6Fb%201&")).toBe(3);
    expect(await countOf("/query?&&user=bob+1")).toBe(4);
  });

  it("is absent if it has no value", async () => {
    for (const query of ["", "?", "?user", "?user=", "?=ann", "?users=ann", "?x=user=ann"]) {
      expect([query, await countOf(`/query${query}`)]).toEqual([query, undefined]);
    }
  });
});

describe("a cookie", () => {
  it("is read by its name, from whichever line", async () => {
    expect(await countOf("/cookie", "Cookie: user=ann")).toBe(1);
    expect(await countOf("/cookie", "Cookie: users=junk2; user=ann")).toBe(2);
    expect(await countOf("/cookie", "Cookie: a=1", "Cookie: user=ann", "Cookie: b=2")).toBe(3);
    expect(await countOf("/cookie", "Cookie: a=1;user=ann")).toBe(4);
    expect(await countOf("/cookie", "Cookie: users=ann; xuser=ann; user=; =ann; user")).toBeUndefined();
  });
});

describe("a header", () => {
  it("is the same in whichever case its name is written", async () => {
    expect(await countOf("/header", "X-User: ann")).toBe(1);
    expect(await countOf("/header", "x-uSER:  ann  ")).toBe(2);
    expect(await countOf("/header", "X-User: ann, junk")).toBe(1);
    expect(await countOf("/header", "X-User:")).toBeUndefined();
  });
});

describe("a claim of a token", () => {
  it("counts by the claim alone, whoever signed the token, and whatever else it holds", async () => {
    expect(await countOf("/sub", unsigned({ sub: "ann" }))).toBe(1);
    expect(await countOf("/sub", unsigned({ iat: 5, sub: "ann", other: [1, { a: "ü?>" }] }))).toBe(2);
    expect(await countOf("/sub", unsigned({ sub: "ann" }).replace(/c2ln$/, "").replace("Bearer", "bearer"))).toBe(3);
    expect(await countOf("/sub", unsigned({ sub: 9007199254740991 }))).toBe(1);
    expect(await countOf("/sub", unsigned({ sub: "9007199254740991" }))).toBe(2);
    expect(await countOf("/realm", unsigned({ realm: { id: "r" } }))).toBe(1);
  });

  it("is read anew for every request", async () => {
    for (const sub of ["one", "two"]) expect(await countOf("/sub", unsigned({ sub }))).toBe(1);
    expect(await countOf("/sub")).toBeUndefined();
    expect(await countOf("/sub", unsigned({ sub: "one" }))).toBe(2);
  });

  it("is absent unless the header is a token with that claim", async () => {
    const padded = Buffer.from('{"sub":"ann"} ').toString("base64");
    const damaged = [
      unsigned(""),
      unsigned("x"),
      unsigned("[]"),
      unsigned("null"),
      unsigned('"sub"'),
      unsigned({ sub: null }),
      unsigned({ sub: true }),
      unsigned({ sub: ["ann"] }),
      unsigned({ sub: "" }),
      unsigned({ sub: 1.5 }),
      unsigned('{"sub":1e400}'),
      unsigned({ sub: "a".repeat(9000) }).slice(0, 8000),
      unsigned("[".repeat(5000)),
      "Authorization: Bearer e30.a.c2ln",
      `Authorization: Bearer e30.${padded}.c2ln`,
      "Authorization: Basic YTpi",
      "Authorization:",
    ];
    for (const line of damaged) {
      const shown = line.slice(0, 60);
      expect([shown, await countOf("/sub", line)]).toEqual([shown, undefined]);
    }
    expect(gateway.log).not.toMatch(/passed without a decision|lua entry thread aborted/);
  });
});

describe("a key of several parts with onMissingKey: shared", () => {
  const tenant = (name: string) => `X-Tenant: ${name}`;

  it("counts a request without a part together with those that lack it too and have the same other parts", async () => {
    expect(await countOf("/several", tenant("acme"))).toBe(1);
    expect(await countOf("/several", tenant("acme"), "X-User: ")).toBe(2);
    expect(await countOf("/several", tenant("acme"), "X-User: ann")).toBe(1);
    expect(await countOf("/several", tenant("other"))).toBe(1);
  });

  it("keeps requests apart that lack different parts, and those that lack all", async () => {
    expect(await countOf("/several", "X-User: eve")).toBe(1);
    expect(await countOf("/several", tenant("eve"))).toBe(1);
    expect(await countOf("/several")).toBe(1);
    expect(await countOf("/several")).toBe(2);
  });
});
