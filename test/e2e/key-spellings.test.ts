// A client may try to have one value of a key counted as many or as none: by other spellings of a cookie, a token, a header
// or an argument that the service still reads, and by repeated lines. The tests compare with the tables of docs/policies.md on
// whichever nginx runs: of repeated headers nginx before 1.23 shows the first, and later versions join them.

import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { documentedSpellings, type Spelling } from "../fixtures/documents/documented-spellings.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const quota = 1_000_000;
const secret = "a-debugging-secret-of-the-tests";

const counting = (name: string, more: object) => ({
  name,
  match: { paths: [`/${name}`] },
  onMissingKey: "deny",
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
  ...more,
});

let gateway: LoneGateway;
let http2Port: number;
beforeAll(async () => {
  http2Port = await freePort();
  gateway = await LoneGateway.start({
    edit: (config) => config.replace(/listen .*/, (line) => `${line} listen 127.0.0.1:${http2Port} http2;`),
    env: { SLUICE_DEBUG_SECRET: secret },
    policies: [
      counting("cookie", { key: ["cookie:sid"] }),
      counting("bearer", { key: ["jwt:sub"] }),
      counting("query", { key: ["query:user"] }),
      counting("form", { key: ["form:user"] }),
      counting("account", { key: ["form:account"] }),
      counting("header", { key: ["header:x-user"] }),
      counting("credential", { key: ["header:authorization"] }),
      counting("pair", { key: ["ip", "header:x-user"] }),
      counting("shadow", { key: ["header:x-user"], mode: "shadow" }),
      counting("cost", { cost: { from: "header:x-cost", max: 100 } }),
      counting("plan", { match: { paths: ["/plan"], headers: { "x-plan": ["free"] } } }),
    ],
  });
});
afterAll(() => gateway?.stop());

async function send(target: string, lines: readonly string[], method = "GET", body = ""): Promise<string> {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
  const head = [`${method} ${target} HTTP/1.1`, "Host: x", "Connection: close", ...lines, "", ""].join("\r\n");
  socket.write(Buffer.from(head + body, "latin1"));
  return text(socket);
}

/** @returns how many requests with this one's key were counted, this one included; the status if it was refused */
async function countOf(target: string, ...lines: string[]): Promise<number | string | undefined> {
  return countIn(await send(target, lines));
}

/** @returns the same of a form */
async function countOfForm(target: string, body: string, type: string): Promise<number | string | undefined> {
  return countIn(await send(target, [`Content-Type: ${type}`, `Content-Length: ${body.length}`], "POST", body));
}

function countIn(answer: string): number | string | undefined {
  const remaining = /^X-RateLimit-Remaining: (\d+)/im.exec(answer)?.[1];
  return remaining === undefined ? /^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] : quota - Number(remaining);
}

/** Sends every spelling, and expects that each value has one counter. */
async function expectAsDocumented(
  spellings: readonly Spelling[],
  sendOne: (written: string) => Promise<number | string | undefined>,
): Promise<void> {
  const counts = new Map<string, number>();
  const seen: unknown[] = [];
  const expected: unknown[] = [];
  for (const { written, reading } of spellings) {
    seen.push([written, await sendOne(written)]);
    if (reading === false) expected.push([written, "400"]);
    else if (reading === undefined || reading === "") expected.push([written, "403"]);
    else {
      counts.set(reading, (counts.get(reading) ?? 0) + 1);
      expected.push([written, counts.get(reading)]);
    }
  }
  expect(spellings.length).toBeGreaterThan(5);
  expect(seen).toEqual(expected);
}

const tokenOf = (sub: string) => `e30.${Buffer.from(JSON.stringify({ sub })).toString("base64url")}.c2ln`;

describe("one value is one counter in every spelling that the docs have", () => {
  it("of a cookie", async () => {
    await expectAsDocumented(documentedSpellings("`Cookie:`"), (written) => countOf("/cookie", `Cookie: ${written}`));
  });

  it("of a bearer token", async () => {
    const real = (written: string) => written.replaceAll("a.b.c", tokenOf("ann")).replaceAll("d.e.f", tokenOf("dan"));
    await expectAsDocumented(documentedSpellings("`Authorization:`"), (written) =>
      countOf("/bearer", `Authorization: ${real(written)}`),
    );
  });

  it("of claims that other servers read", async () => {
    const tokenWith = (claims: string) => `e30.${Buffer.from(claims).toString("base64url")}.c2ln`;
    const countWith = (claims: string) => countOf("/bearer", `Authorization: Bearer ${tokenWith(claims)}`);
    expect(await countWith('{"sub":"half","name":"Ann"}')).toBe(1);
    expect(await countWith('{"sub":"half","name":"Ann \\ud800"}')).toBe("400");
    expect(await countWith('{"sub":"half","\\udc00":1}')).toBe("400");
    expect(await countWith(`\n{"sub":"half","deep":${"[".repeat(1001)}${"]".repeat(1001)}}`)).toBe("400");
    expect(await countWith('{"sub":"half"')).toBe("400");
    // Nobody reads these.
    expect(await countWith('"half"')).toBe("403");
    expect(await countWith("half")).toBe("403");
  });

  it("of a credential", async () => {
    const spelt = ["Bearer tok", "bearer tok", "Bearer\ttok", "BEARER   tok", "\tBearer tok\t"];
    const counts: unknown[] = [];
    for (const each of spelt) counts.push(await countOf("/credential", `Authorization: ${each}`));
    expect(counts).toEqual([1, 2, 3, 4, 5]);
    expect(await countOf("/credential", "Authorization: Bearer tok junk")).toBe("400");
    await expectAsDocumented(documentedSpellings("`Authorization:` in a key"), (written) =>
      countOf("/credential", `Authorization: ${written}`),
    );
  });

  it("of a JSON Web Token wherever it is", async () => {
    const [token, same] = ["eyJhIjoxfQ.e30.c2k", "eyJhIjoxfQ.e30.c2l"];
    const forms = "application/x-www-form-urlencoded";
    expect(await countOf("/header", `X-User: ${token}`)).toBe(1);
    expect(await countOf("/cookie", `Cookie: sid=${token}`)).toBe(1);
    expect(await countOf(`/query?user=${token}`)).toBe(1);
    expect(await countOfForm("/form", `user=${token}`, forms)).toBe(1);
    expect(await countOf("/header", `X-User: ${same}`)).toBe("400");
    expect(await countOf("/cookie", `Cookie: sid=${same}`)).toBe("400");
    expect(await countOf(`/query?user=${same}`)).toBe("400");
    expect(await countOfForm("/form", `user=${same}`, forms)).toBe("400");
  });

  it("of an argument", async () => {
    await expectAsDocumented(documentedSpellings("`?`"), (written) => countOf(`/query?${written}`));
  });
});

describe("a target with #, behind which nginx has no arguments, and Node and Go read more of them", () => {
  const forms = "application/x-www-form-urlencoded";

  it.each(["?x=1#&NAME=victim", "?NAME=decoy#&NAME=victim", "#?NAME=victim", "?NAME=decoy#"])(
    "is answered 400 where arguments count: %s",
    async (written) => {
      expect(await countOf(`/query${written.replaceAll("NAME", "user")}`)).toBe("400");
      expect(await countOfForm(`/form${written.replaceAll("NAME", "user")}`, "user=decoy", forms)).toBe("400");
    },
  );

  it("is counted where its # is encoded", async () => {
    expect(await countOf("/query?user=%23&x=%23")).toBe(1);
  });
});

describe("a field of a form", () => {
  const form = "application/x-www-form-urlencoded";

  it("has one counter in every spelling that the docs have of an argument", async () => {
    await expectAsDocumented(documentedSpellings("`?`"), (written) => countOfForm("/form", written, form));
  });

  it("is read from bodies of the types that the docs have", async () => {
    const types = documentedSpellings("`Content-Type:`");
    await expectAsDocumented(types, (type) => countOfForm("/account", "account=ann", type));
  });
});

describe("a line that comes twice", () => {
  it("of Cookie is one list: an equal value is counted with the first, a different one gets 400", async () => {
    expect(await countOf("/cookie", "Cookie: a=1", "Cookie: sid=twice")).toBe(1);
    expect(await countOf("/cookie", "Cookie: sid=twice", "Cookie: sid =twice")).toBe(2);
    expect(await countOf("/cookie", "Cookie: sid=twice", "Cookie: sid=junk")).toBe("400");
  });

  it("of Cookie is one list by HTTP/2 too, where clients send each cookie in a field of its own", async () => {
    const session = connectHttp2(`http://127.0.0.1:${http2Port}`);
    const count = async (...cookies: string[]) => {
      const stream = session.request({ ":path": "/cookie", cookie: cookies });
      const [headers] = await once(stream, "response");
      stream.close();
      const remaining = headers["x-ratelimit-remaining"];
      return remaining === undefined ? headers[":status"] : quota - Number(remaining);
    };
    try {
      expect(await count("a=1", "sid=split", "b=2")).toBe(1);
      expect(await count("sid=split", "sid =%73plit")).toBe(2);
      expect(await count("sid=split", "sid=junk")).toBe(400);
    } finally {
      session.close();
    }
  });

  it("of a header in the key gets 400, equal or not", async () => {
    expect(await countOf("/header", "X-User: ann")).toBe(1);
    for (const path of ["/header", "/pair"]) {
      expect(await countOf(path, "X-User: ann", "X-User: junk1")).toBe("400");
      expect(await countOf(path, "X-User: junk2", "A: b", "x-user: ann")).toBe("400");
      expect(await countOf(path, "X-User: ann", "X-User: ann")).toBe("400");
      expect(await countOf(path, "X-User: ann", "X-User:")).toBe("400");
    }
    expect(await countOf("/header", "X-User: ann")).toBe(2);
    expect(await countOf("/shadow", "X-User: ann", "X-User: junk")).toBe("404");
    expect(gateway.log).not.toContain("passed undecided");
  });

  it("of Authorization gets 400", async () => {
    const [ann, dan] = [tokenOf("twice"), tokenOf("junk")];
    expect(await countOf("/bearer", `Authorization: Bearer ${ann}`, `Authorization: Bearer ${dan}`)).toBe("400");
    expect(await countOf("/bearer", `Authorization: Bearer ${ann}`, `Authorization: Bearer ${ann}`)).toBe("400");
  });

  it("of the cost gets 400 and charges nothing, equal or not", async () => {
    expect(await countOf("/cost", "X-Cost: 5")).toBe(5);
    expect(await countOf("/cost", "X-Cost: 1", "X-Cost: 100")).toBe("400");
    expect(await countOf("/cost", "X-Cost: 1", "X-Cost: 1")).toBe("400");
    expect(await countOf("/cost", "X-Cost: 1, 1")).toBe("400");
    expect(await countOf("/cost")).toBe(6);
  });

  it("of a header that a policy matches by matches if either value does", async () => {
    expect(await countOf("/plan", "X-Plan: free")).toBe(1);
    expect(await countOf("/plan", "X-Plan: vip", "X-Plan: free")).toBe(2);
    expect(await countOf("/plan", "X-Plan: free", "X-Plan: vip")).toBe(3);
    expect(await countOf("/plan", "X-Plan: vip", "X-Plan: other")).toBe("404");
  });

  it("of the debugging secret shows nothing", async () => {
    const lines = ["X-User: ann", `X-Sluice-Debug: ${secret}`];
    expect(await send("/header", lines)).toMatch(/^X-Sluice-Debug: default\/header/im);
    expect(await send("/header", [...lines, "X-Sluice-Debug: x"])).not.toMatch(/^X-Sluice-Debug/im);
    expect(await send("/header", ["X-User: a", "X-User: b", ...lines.slice(1)])).toContain("; key-ambiguous");
  });

  it("is found behind 150 others", async () => {
    const fillers = Array.from({ length: 150 }, (_, i) => `X-Filler-${i}: ${i}`);
    expect(await countOf("/header", "X-User: ann", ...fillers, "X-User: junk")).toBe("400");
    expect(await countOf("/header", "X-User: filled", ...fillers)).toBe(1);
  });
});

describe("a header's value", () => {
  it("is the same with blanks around it that servers strip", async () => {
    const values = ["bob", "\tbob", "bob\t", "  bob \t ", "\u000bbob", "\u00a0bob", "bob\u0085"];
    const counts: unknown[] = [];
    for (const value of values) counts.push(await countOf("/header", `X-User:${value}`));
    expect(counts).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(await countOf("/header", "X-User: \t ")).toBe("403");
  });
});
