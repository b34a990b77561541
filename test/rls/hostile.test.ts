// Requests that no Envoy sends, and values that its clients may write. None of them may stop the service or fail the calls of others, and no
// value may let its writer pass without a limit.

import { type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Caller, callerOf } from "../fixtures/clients/check-api-client.ts";
import {
  descriptor,
  type EnvoyAnswer,
  EnvoyClient,
  type EnvoyRequest,
  encoded,
} from "../fixtures/clients/envoy-client.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RateLimitService } from "../fixtures/servers/rate-limit-service.ts";

const envoy: Caller = { app: "default", token: "a-token-of-envoy" };
const one = { algorithm: "fixed-window", quota: 1, window: "366d" };
const headers = Array.from({ length: 8 }, (_, i) => `header:x-${i}`);
let gateway: LoneGateway;
let service: RateLimitService;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      { name: "edge-user", match: { paths: ["/elsewhere"] }, key: ["header:x-user"], limits: [one] },
      { name: "address", match: { paths: ["/elsewhere"] }, key: ["ip"], limits: [one] },
      { name: "eight", match: { paths: ["/elsewhere"] }, key: headers, limits: [one] },
    ],
    callers: [callerOf(envoy)],
  });
  service = await RateLimitService.start({ gateway: gateway.privateUrl, token: envoy.token });
});
afterAll(async () => {
  // It has said nothing of its own failures, and is still there.
  expect(service.program.isRunning).toBe(true);
  expect(service.program.output).not.toContain("a call failed");
  await service.stop();
  await gateway.stop();
});

const codeOf = (call: Promise<EnvoyAnswer>) =>
  call.then(
    ({ overallCode }) => overallCode,
    ({ code }: ServiceError) => status[code],
  );
let users = 0;
/** Another user, who is admitted once. */
const honest = () =>
  codeOf(service.client.ask({ domain: "edge", descriptors: [descriptor("user", `honest ${users++}`)] }));

describe("a request that nobody can decide", () => {
  const user = descriptor("user", "x");
  const requests: [string, EnvoyRequest, string][] = [
    [
      "without a domain",
      { domain: "", descriptors: [user] },
      "domain: expected the name of a domain, got an empty text",
    ],
    ["without descriptors", { domain: "edge", descriptors: [] }, "descriptors: expected 1 to 100 of them, got 0"],
    [
      "with 10,000 descriptors",
      { domain: "edge", descriptors: Array.from({ length: 10_000 }, () => user) },
      "descriptors: expected 1 to 100 of them, got 10000",
    ],
    [
      "with a descriptor without entries",
      { domain: "edge", descriptors: [user, { entries: [] }] },
      "descriptors[1].entries: expected 1 to 100 of them, got 0",
    ],
    [
      "with 10,000 entries",
      {
        domain: "edge",
        descriptors: [{ entries: Array.from({ length: 10_000 }, () => ({ key: "user", value: "x" })) }],
      },
      "descriptors[0].entries: expected 1 to 100 of them, got 10000",
    ],
    [
      "with more values than a key has",
      { domain: "edge", descriptors: [descriptor("generic_key", "eight", ...Array.from({ length: 18 }, () => "x"))] },
      "descriptors[0].entries: expected at most 8 values for the key of policy eight, got 9",
    ],
    [
      "with a limit of its own",
      { domain: "edge", descriptors: [{ ...user, limit: { requestsPerUnit: 5, unit: "MINUTE" } }] },
      "descriptors[0].limit: expected none: the policy has the limit, got an override",
    ],
    [
      "that wants a refund",
      { domain: "edge", descriptors: [{ ...user, isNegativeHits: true }] },
      "descriptors[0].is_negative_hits: expected false: nothing is refunded, got true",
    ],
    [
      "with too many hits",
      { domain: "edge", descriptors: [user], hitsAddend: 4294967295 },
      "hits_addend: expected at most",
    ],
    [
      "with more hits than a number holds",
      { domain: "edge", descriptors: [{ ...user, hitsAddend: 2 ** 63 }] },
      "descriptors[0].hits_addend: expected at most 2147483648, got 9223372036854776000",
    ],
  ];
  it.each(requests)("%s is refused, and says what is wrong", async (_, request, said) => {
    await expect(service.client.ask(request)).rejects.toThrow(`INVALID_ARGUMENT: ${said}`);
    expect(await honest()).toBe("OK");
  });

  it.each([
    ["no bytes", Buffer.alloc(0), "INVALID_ARGUMENT"],
    ["a length beyond the end", Buffer.from([0x0a, 0xff, 0xff, 0x7f]), "INVALID_ARGUMENT"],
    ["a field that ends early", Buffer.from([0x12]), "INTERNAL"],
    ["random bytes", Buffer.from(Array.from({ length: 500 }, (_, i) => (i * 7919) % 256)), "INTERNAL"],
    [
      "two MB",
      encoded({ domain: "edge", descriptors: [descriptor("user", "x".repeat(2_000_000))] }),
      "RESOURCE_EXHAUSTED",
    ],
  ])("%s: another error, and the next one is answered", async (_, bytes, code) => {
    expect(await codeOf(service.client.send(bytes))).toBe(code);
    expect(await honest()).toBe("OK");
  });

  it("skips fields that it does not know", async () => {
    const known = encoded({ domain: "edge", descriptors: [descriptor("user", "of the future")] });
    expect(await codeOf(service.client.send(Buffer.concat([known, Buffer.from([0xfa, 0x06, 3, 1, 2, 3])])))).toBe("OK");
  });
});

describe("a value of a client", () => {
  const values: [string, string][] = [
    ["8192 bytes", "x".repeat(8192)],
    ["8193 bytes", "x".repeat(8193)],
    ["60 KB", "y".repeat(60_000)],
    ["8000 control characters", "\u0001".repeat(8_000)],
    ["8000 quotes", '"\\'.repeat(4_000)],
    ["4000 emojis", "🙂".repeat(4_000)],
    ["NUL", "a\u0000b"],
    ["line ends", "a\r\nb\u2028c"],
    ["JSON", '"],"cost":0,"key":["'],
    ["a name of JavaScript", "__proto__"],
    ["nothing but blanks", "  "],
  ];
  it.each(values)("that is %s is counted as any other", async (_, value) => {
    const request = { domain: "edge", descriptors: [descriptor("user", value)] };
    expect(await codeOf(service.client.ask(request))).toBe("OK");
    expect(await codeOf(service.client.ask(request))).toBe("OVER_LIMIT");
    expect(await honest()).toBe("OK");
  });

  it("that is long is not the same as another that is long", async () => {
    const ask = (value: string) =>
      codeOf(service.client.ask({ domain: "edge", descriptors: [descriptor("user", value)] }));
    const long = "z".repeat(9_000);
    expect([await ask(`${long}1`), await ask(`${long}2`), await ask(`${long}1`)]).toEqual(["OK", "OK", "OVER_LIMIT"]);
  });

  it.each([
    ["characters", "x"],
    ["control characters", "\u0001"],
    ["emojis", "🙂"],
  ])("is counted beside seven others with 8000 %s each", async (_, character) => {
    const values = Array.from({ length: 8 }, (_, i) => ["header", `${i}${character.repeat(8_000)}`]);
    const request = { domain: "edge", descriptors: [descriptor("generic_key", "eight", ...values.flat())] };
    expect(await codeOf(service.client.ask(request))).toBe("OK");
    expect(await codeOf(service.client.ask(request))).toBe("OVER_LIMIT");
  });

  it("that is not UTF-8 is counted", async () => {
    const text = encoded({ domain: "edge", descriptors: [descriptor("user", "bad %%%")] });
    for (const bytes of [
      [0xff, 0xfe, 0x80],
      [0xed, 0xa0, 0x80],
      [0xc0, 0x80, 0xf5],
    ]) {
      const broken = Buffer.from(text.map((byte, i) => (byte === 0x25 ? (bytes[i % 3] as number) : byte)));
      expect(broken.equals(text)).toBe(false);
      expect(await codeOf(service.client.send(broken))).toMatch(/^(OK|OVER_LIMIT)$/);
      expect(await codeOf(service.client.send(broken))).toBe("OVER_LIMIT");
    }
  });

  it.each(["unknown", "192.0.2.1:443", "192.0.2.01", "fe80::1%eth0", "1.2.3.4, 5.6.7.8"])(
    "that is no address where one is expected is refused: %s",
    async (value) => {
      const ask = (text: string) =>
        codeOf(service.client.ask({ domain: "x", descriptors: [descriptor("generic_key", "address", "ip", text)] }));
      expect(await ask(value)).toBe("OVER_LIMIT");
    },
  );
});

describe("many streams", () => {
  it("of many connections at once are all answered, and once each", async () => {
    const clients = Array.from({ length: 20 }, () => new EnvoyClient(service.address));
    const calls = clients.flatMap((client, c) =>
      Array.from({ length: 200 }, (_, i) =>
        codeOf(client.ask({ domain: "edge", descriptors: [descriptor("user", `stream ${c} ${i >> 1}`)] })),
      ),
    );
    const codes = await Promise.all(calls);
    for (const client of clients) client.close();
    // Each user comes twice.
    expect(codes.filter((code) => code === "OK")).toHaveLength(2_000);
    expect(codes.filter((code) => code === "OVER_LIMIT")).toHaveLength(2_000);
  });

  it("that are given up early leave nothing behind", async () => {
    const gone = new EnvoyClient(service.address);
    const calls = Array.from({ length: 500 }, (_, i) =>
      codeOf(gone.send(encoded({ domain: "edge", descriptors: [descriptor("user", `gone ${i}`)] }), 1)),
    );
    const codes = new Set(await Promise.all(calls));
    gone.close();
    expect([...codes].filter((code) => code !== "OK" && code !== "DEADLINE_EXCEEDED")).toEqual([]);
    for (let i = 0; i < 10; i++) expect(await honest()).toBe("OK");
  });
});
