// Requests that go on for long, when those who have sent them lose their rights meanwhile.

import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { type EventReader, followEvents } from "../../fixtures/clients/event-reader.ts";
import { perSecond, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";

type World = Running & { pass(ms: number): void };

async function start(): Promise<World> {
  let passedMs = 0;
  const running = await startControlPlane({}, { now: () => Date.now() + passedMs });
  await running.call("PUT", "/apps/shop", { body: { realm: {} } });
  return {
    ...running,
    pass(ms) {
      passedMs += ms;
    },
  };
}

async function add({ call }: Running, name: string, roles: object): Promise<string> {
  expect((await call("POST", "/members", { body: { name, roles } })).status).toBe(201);
  return (await call("POST", "/tokens", { body: { name: "laptop", member: name } })).body.token;
}

/** Longer than a stream goes on without a look at the rights. */
const checkedMs = 5_001;

describe("a stream of events", () => {
  it("ends when the member has no role any more by which it could be asked for", async () => {
    const running = await start();
    const token = await add(running, "ann", { shop: "viewer" });
    const events = await followEvents(running, "", token);
    await running.call("PATCH", "/members/ann", { body: { roles: { shop: "none" } } });
    running.pass(checkedMs);
    await events.ended;
  });

  it("shows no credentials of clients any more to who is no editor any more", async () => {
    const running = await start();
    await running.call("PUT", "/apps/shop/policies/books", { body: { ...perSecond(1), key: ["header:x-api-key"] } });
    const token = await add(running, "ann", { shop: "editor" });
    const gateway = await connectGateway(running, "gw-1");
    const nowMs = Date.now();
    const own = { app: "shop", policy: "books", sinceMs: nowMs - 10_000, error: 0, unlisted: 0 };
    const keys = [{ ...own, result: "refused", keys: ["1:abcd"], counts: [1] }];
    gateway.say({
      type: "activity",
      nowMs,
      workers: [{ fromMs: nowMs - 500, toMs: nowMs, policies: [], keys }],
    } as never);
    const events = await followEvents(running, "?app=shop&policy=books", token);
    const shown = async (reader: EventReader) => {
      const { data } = await reader.next(({ event, data }) => event === "top" && (data["refused"] as []).length > 0);
      return (data["refused"] as { key: string[] }[])[0]?.key;
    };
    running.pass(checkedMs);
    expect(await shown(events)).toEqual(["abcd"]);
    await running.call("PATCH", "/members/ann", { body: { roles: { shop: "viewer" } } });
    running.pass(checkedMs);
    // The look at the rights and the next keys may come at once.
    await events.next(({ event }) => event === "top");
    running.pass(checkedMs);
    expect(await shown(events)).toEqual([expect.stringMatching(/^sha256:/)]);
  });

  it("is not begun by HEAD, whose answer would leave it open for ever", async () => {
    const running = await start();
    for (let i = 0; i < 20; i++) expect((await running.call("HEAD", "/events")).status).toBe(405);
    (await followEvents(running, "")).stop();
  });
});

it("whoever is disabled while the body of their request arrives changes nothing", async () => {
  const running = await start();
  const token = await add(running, "ann", { shop: "editor" });
  const body = JSON.stringify(perSecond(1));
  const socket = connect(Number(new URL(running.url).port), "127.0.0.1");
  const answer = text(socket);
  const head = [
    "PUT /api/v1/apps/shop/policies/books HTTP/1.1",
    "host: x",
    "connection: close",
    `authorization: Bearer ${token}`,
    "content-type: application/json",
    `content-length: ${body.length}`,
  ];
  const identified = once(running.app.server, "request");
  socket.write(`${head.join("\r\n")}\r\n\r\n${body.slice(0, 5)}`);
  await identified;
  // So long that the member is certainly known by now.
  await sleep(150);
  await running.call("PATCH", "/members/ann", { body: { disabled: true } });
  socket.write(body.slice(5));
  expect(await answer).toMatch(/^HTTP\/1\.1 401 .*The member to whom the token belongs is disabled/s);
  expect((await running.call("GET", "/apps/shop/policies/books")).status).toBe(404);
});
