// The TypeScript client takes the values of its callers, and reads answers, of a gateway that is a few lines long.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  type ClientOptions,
  SluiceClient,
  type SluiceError,
  type SluiceEvent,
} from "../../clients/typescript/src/index.ts";

interface Asked {
  readonly path: string;
  readonly body: string;
}

type Answer = (asked: Asked, response: ServerResponse) => unknown;

const asked: Asked[] = [];
let answer: Answer;
let server: Server;
beforeAll(async () => {
  server = createServer(async (request, response) => {
    const one = { path: request.url ?? "", body: await textOf(request) };
    asked.push(one);
    await answer(one, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of request) text += piece;
  return text;
}

const events: SluiceEvent[] = [];
const clients: SluiceClient[] = [];
function clientOf(options: Partial<ClientOptions> = {}): SluiceClient {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const hook = (event: SluiceEvent) => events.push(event);
  const client = new SluiceClient({
    url,
    token: "t",
    deadlineMs: 10_000,
    onFailure: "deny",
    onEvent: hook,
    ...options,
  });
  clients.push(client);
  return client;
}
beforeEach(() => {
  events.length = 0;
  asked.length = 0;
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
});

const json = (value: unknown, status = 200, type = "application/json"): Answer => {
  return (_, response) => response.writeHead(status, { "content-type": type }).end(JSON.stringify(value));
};
const refusal = { allowed: false, limit: 1, remaining: 0, retryAfter: 60, resetAfter: 60 };
const refuses = json({ allowed: false, results: [refusal] });
const allows = json({ allowed: true, results: [{ allowed: true, limit: 1, remaining: 0 }] });

it("keeps the key of a call as it was at the call", async () => {
  const sluice = clientOf();
  const key = ["ann"];
  answer = refuses;
  const first = sluice.check("p", key);
  key[0] = "bob";
  expect((await first).allowed).toBe(false);
  expect((await sluice.check("p", ["ann"])).source).toBe("memory");
  answer = allows;
  expect(await sluice.check("p", ["bob"])).toMatchObject({ allowed: true, source: "gateway" });
  key[0] = "ann";
  const acquired = sluice.acquire("p", key, { maxWaitMs: 10 });
  key[0] = "carl";
  await acquired;
  expect((await sluice.check("p", ["ann"])).source).toBe("gateway");
});

describe("a call that cannot be asked", () => {
  const half = "\ud800";
  const wait = { maxWaitMs: 10 };
  const unicode = (field: string) => `${field}: expected text that is valid Unicode, got "\\ud800"`;
  const notWritten = /BigInt/;
  const cost = 1n as unknown as number;
  const aTtl = (got: string) => `ttlMs: expected a number from 1 to 9007199254740991, got ${got}`;

  it.each<[string, string | RegExp, (sluice: SluiceClient) => Promise<unknown>]>([
    ["check", unicode("key[1]"), (sluice) => sluice.check("p", ["a", half])],
    ["check", unicode("policy"), (sluice) => sluice.check(half, ["a"])],
    ["check", unicode("plan"), (sluice) => sluice.check("p", ["a"], { plan: half })],
    ["peek", unicode("key[0]"), (sluice) => sluice.peek("p", [half])],
    ["acquire", unicode("key[0]"), (sluice) => sluice.acquire("p", [half], wait)],
    ["hold", unicode("plan"), (sluice) => sluice.hold("p", ["a"], { plan: half })],
    [
      "checkAll",
      unicode("checks[1].key[0]"),
      (sluice) =>
        sluice.checkAll([
          { policy: "p", key: ["a"] },
          { policy: "p", key: [half] },
        ]),
    ],
    ["check", notWritten, (sluice) => sluice.check("p", ["refused"], { cost })],
    ["peek", notWritten, (sluice) => sluice.peek("p", ["a"], { cost })],
    ["acquire", notWritten, (sluice) => sluice.acquire("p", ["a"], { ...wait, cost })],
    ["report", unicode("key[0]"), (sluice) => sluice.report("p", [half])],
    ["report", notWritten, (sluice) => sluice.report("p", ["a"], { cost })],
    ["hold", notWritten, (sluice) => sluice.hold("p", ["a"], { slots: cost })],
    ["hold", aTtl("0.9"), (sluice) => sluice.hold("p", ["a"], { ttlMs: 0.9 })],
    ["hold", aTtl("NaN"), (sluice) => sluice.hold("p", ["a"], { ttlMs: Number.NaN })],
    ["hold", aTtl("1e+21"), (sluice) => sluice.hold("p", ["a"], { ttlMs: 1e21 })],
    ["hold", aTtl('"10s"'), (sluice) => sluice.hold("p", ["a"], { ttlMs: "10s" as unknown as number })],
    ["checkAll", notWritten, (sluice) => sluice.checkAll([{ policy: "p", key: ["a"], cost }])],
    ["checkAll", "checks: expected a list of checks, got undefined", (sluice) => sluice.checkAll(undefined as never)],
    ["acquire", /maxWaitMs/, (sluice) => sluice.acquire("p", ["a"], undefined as never)],
  ])("rejects, with an event and without a request: %s, %s", async (call, message, ask) => {
    const sluice = clientOf();
    answer = refuses;
    await sluice.check("p", ["refused"], { cost: 1 });
    asked.length = 0;
    events.length = 0;
    let asking: Promise<unknown> | undefined;
    expect(() => {
      asking = ask(sluice);
    }).not.toThrow();
    await expect(asking).rejects.toThrow(message);
    expect(events).toMatchObject([{ call, outcome: "error", batch: 0 }]);
    expect(asked).toEqual([]);
  });
});

it("takes only texts from a problem document", async () => {
  const odd = { toString: 0, valueOf: 0 };
  const errors = [{ path: odd, expected: 7, got: "x" }];
  answer = json({ code: "invalid-request", detail: odd, errors }, 400, "application/problem+json");
  await expect(clientOf().check("p", ["a"])).rejects.toMatchObject({
    code: "invalid-request",
    detail: "",
    errors: [{ path: "", expected: "", got: "x" }],
  });
});

it("keeps a part of very many errors, once for all checks of a request that are named by none", async () => {
  const errors = Array.from({ length: 100_000 }, () => ({}));
  // All checks of a request with a wrong token hear the same.
  answer = json({ code: "unauthorized", errors }, 401, "application/problem+json");
  const sluice = clientOf({ maxInFlight: 1 });
  const asking = ["a", "b", "c", "d"].map((key) => sluice.check("p", [key]).catch((error: SluiceError) => error));
  const told = (await Promise.all(asking)) as SluiceError[];
  expect(told.map(({ code }) => code)).toEqual(told.map(() => "unauthorized"));
  expect(told[3]?.errors.length).toBe(101);
  expect(told[3]).toBe(told[2]);
});

it("takes only a problem document for the caller's mistake", async () => {
  const document = { code: "not-found", detail: "No such page." };
  for (const type of ["application/problem+json", "Application/Problem+JSON ; charset=utf-8"]) {
    answer = json(document, 404, type);
    await expect(clientOf().peek("p", ["a"])).rejects.toMatchObject({ code: "not-found" });
  }
  for (const type of ["application/json", "application/problem+jsonx", "text/html"]) {
    answer = json(document, 404, type);
    expect(await clientOf().peek("p", ["a"])).toMatchObject({ source: "failure", allowed: false });
  }
});

it("does not renew a hold of a year all the time", async () => {
  answer = json({ allowed: true, hold: "h", ttl: 366 * 86_400 });
  const { hold } = await clientOf().hold("p", ["a"]);
  // A renewal would come at once. A busy machine only renews less often.
  await sleep(100);
  expect(asked.map(({ path }) => path)).toEqual(["/sluice/v1/hold"]);
  await hold?.release();
});

it("remembers a refusal from its request on, not from its answer", async () => {
  const sluice = clientOf({ rememberRefusalsMs: 600 });
  answer = async (...asks) => {
    await sleep(400);
    return refuses(...asks);
  };
  await sluice.check("p", ["slow"]);
  // It is 0.7 s after the request by then, or more on a busy machine.
  await sleep(300);
  expect((await sluice.check("p", ["slow"])).source).toBe("gateway");
});
