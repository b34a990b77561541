// Tests in nginx itself what a policy provides for particular requests: stated costs, overrides, exemptions, schedules.

import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { days } from "../../limiter/src/document/schedule.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const quota = (units: number) => [{ algorithm: "fixed-window", quota: units, window: "366d" }];
const at = (name: string) => ({ name, match: { paths: [`/${name}`] } });
const always = { timezone: "UTC", windows: [{ from: "00:00", to: "24:00" }] };
// This day is days away from today, so that the test does not run near the schedule's border.
const otherDay = days[(new Date().getUTCDay() + 2) % 7] as string;
const notNow = { timezone: "UTC", windows: [{ days: [otherDay], from: "00:00", to: "24:00" }] };

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      { ...at("cost"), limits: quota(1000), cost: { from: "header:x-cost", default: 5, max: 100 } },
      { ...at("bytes"), limits: quota(1000), cost: { from: "request-bytes" } },
      { ...at("shadow-cost"), mode: "shadow", limits: quota(1000), cost: { from: "header:x-cost" } },
      {
        ...at("mostly-shadow"),
        mode: "shadow",
        key: ["header:x-user"],
        limits: quota(1000),
        cost: { from: "header:x-cost", default: 1 },
        overrides: [{ key: ["bad"], mode: "enforce", limits: quota(1) }],
      },
      {
        ...at("vip"),
        key: ["header:x-user"],
        limits: [...quota(2), { name: "b", algorithm: "token-bucket", quota: 9, window: "1d" }],
        cost: { from: "header:x-cost" },
        overrides: [
          { key: ["vip-42"], limits: quota(5) },
          { key: ["vip-*"], mode: "off" },
          { key: ["ghost"], mode: "shadow" },
        ],
      },
      {
        ...at("inside"),
        key: ["header:x-user"],
        onMissingKey: "deny",
        limits: quota(1),
        exempt: { cidrs: ["127.0.0.0/8"] },
      },
      {
        ...at("probe"),
        key: ["header:x-user"],
        onMissingKey: "deny",
        limits: quota(1),
        exempt: { cidrs: ["10.0.0.0/8"], keys: [["probe-*"]] },
      },
      { ...at("on"), limits: quota(1), schedule: always },
      { ...at("off"), limits: quota(1), schedule: notNow },
    ],
  });
});
afterAll(() => gateway?.stop());

async function ask(target: string, ...lines: string[]) {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
  socket.write([`POST ${target} HTTP/1.1`, "Host: x", "Connection: close", ...lines, "", ""].join("\r\n"));
  const answer = await text(socket);
  return {
    status: Number(answer.slice(9, 12)),
    remaining: /^X-RateLimit-Remaining: (\d+)/im.exec(answer)?.[1],
    policy: /^RateLimit-Policy: (.*)$/im.exec(answer)?.[1]?.trim(),
  };
}

describe("a cost", () => {
  it("is what the header says, or the default without the header", async () => {
    expect((await ask("/cost", "X-Cost: 7")).remaining).toBe("993");
    expect((await ask("/cost")).remaining).toBe("988");
    expect((await ask("/cost", "X-Cost: 100")).remaining).toBe("888");
    expect((await ask("/cost", "X-Cost: 7")).remaining).toBe("881");
  });

  it("that is no integer from 1 to the maximum is answered 400 and charges nothing", async () => {
    for (const text of ["0", "-1", "+1", "1.5", "NaN", "1e9", "", "01", "101", "0x1", "1, 1", "٣"]) {
      expect([text, (await ask("/cost", `X-Cost: ${text}`)).status]).toEqual([text, 400]);
    }
    expect((await ask("/cost", "X-Cost: 1")).remaining).toBe("880");
    expect((await ask("/shadow-cost", "X-Cost: 0")).status).toBe(404);
  });

  it("is as many units as the body has bytes", async () => {
    expect((await ask("/bytes", "Content-Length: 10", "", "0123456789")).remaining).toBe("990");
    expect((await ask("/bytes", "Content-Length: 0")).remaining).toBe("989");
    expect((await ask("/bytes")).remaining).toBe("988");
    expect((await ask("/bytes", "Content-Length: 1001", "", "x".repeat(1001))).status).toBe(400);
  });
});

describe("an override", () => {
  it("replaces the policy's limits, also in the RateLimit headers", async () => {
    const asVip = () => ask("/vip", "X-User: vip-42");
    expect((await asVip()).policy).toBe('"default";q=5;w=31622400, "b";q=9;w=86400');
    expect((await ask("/vip", "X-User: vip-42", "X-Cost: 2")).remaining).toBe("2");
    expect((await asVip()).status).toBe(404);
    expect((await asVip()).status).toBe(404);
    expect((await asVip()).status).toBe(429);
    expect((await ask("/vip", "X-User: ann")).policy).toBe('"default";q=2;w=31622400, "b";q=9;w=86400');
  });

  it("that enforces a policy in shadow mode is not escaped by a cost or a key that servers read differently", async () => {
    const statuses = async (...lines: string[]) => (await ask("/mostly-shadow", ...lines)).status;
    for (const cost of ["0", "x", "99999999999"])
      expect([cost, await statuses("X-User: bad", `X-Cost: ${cost}`)]).toEqual([cost, 400]);
    expect(await statuses("X-User: good", "X-Cost: x")).toBe(404);
    expect(await statuses("X-User: bad")).toBe(404);
    expect(await statuses("X-User: bad")).toBe(429);
    expect(await statuses("X-User: bad", "X-User: junk")).toBe(400);
    expect(await statuses()).toBe(404);
  });

  it("may switch the policy off for particular keys, or to shadow mode", async () => {
    for (const user of ["vip-1", "ghost"]) {
      for (let i = 0; i < 4; i++) {
        expect(await ask("/vip", `X-User: ${user}`)).toEqual({ status: 404, remaining: undefined, policy: undefined });
      }
    }
  });
});

describe("exemptions", () => {
  it("cover addresses, with or without a key, and key values", async () => {
    for (let i = 0; i < 3; i++) {
      expect((await ask("/inside")).status).toBe(404);
      expect((await ask("/probe", "X-User: probe-1")).status).toBe(404);
    }
    expect((await ask("/probe")).status).toBe(403);
    expect((await ask("/probe", "X-User: ann")).status).toBe(404);
    expect((await ask("/probe", "X-User: ann")).status).toBe(429);
  });
});

it("a policy is on within its schedule, and off outside", async () => {
  expect([(await ask("/on")).status, (await ask("/on")).status]).toEqual([404, 429]);
  expect([(await ask("/off")).status, (await ask("/off")).status]).toEqual([404, 404]);
});
