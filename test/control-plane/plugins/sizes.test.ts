// What is too large is refused at every route.

import { expect, it } from "vitest";
import { adminToken, sharedControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

const shared = sharedControlPlane();

/** Returns every route that the API describes, with a value for each parameter. */
async function routes(): Promise<[method: string, path: string][]> {
  const { body } = await shared().call("GET", "openapi.json");
  return Object.entries(body.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method): [string, string] => [method.toUpperCase(), path.replace(/\{\w+\}/g, "x1")]),
  );
}

async function answerTo(method: string, path: string, init: { headers?: Record<string, string>; body?: string }) {
  const response = await fetch(new URL(path, shared().url), {
    method,
    ...init,
    headers: { authorization: `Bearer ${adminToken}`, ...init.headers },
  });
  const { status, headers } = response;
  const type = headers.get("content-type");
  if (type?.includes("json") === true) return { status, type, body: (await response.json()) as { code?: string } };
  // A stream of events has no end.
  await response.body?.cancel();
  return { status, type, body: {} as { code?: string } };
}

it("a body of 300 KiB is answered 413, and 401 without reading it if nobody signs in", async () => {
  const body = JSON.stringify({ name: "x".repeat(300 * 1024) });
  const writing = (await routes()).filter(([method]) => ["POST", "PUT", "PATCH"].includes(method));
  expect(writing.length).toBeGreaterThan(10);
  for (const [method, path] of writing) {
    const headers = { "content-type": "application/json" };
    const answer = await answerTo(method, path, { headers, body });
    // The routes for many policies, consumers and networks take larger bodies, of other types (hostile-batches.test.ts).
    const refusal = /\/(policies|consumers|networks\/[^/]+)$/.test(path)
      ? [415, "unsupported-media-type"]
      : [413, "body-too-large"];
    expect([method, path, answer.status, answer.body.code]).toEqual([method, path, ...refusal]);
    // It is for strangers.
    if (path === "/api/v1/session") continue;
    const stranger = await answerTo(method, path, { headers: { ...headers, authorization: "" }, body });
    expect([method, path, stranger.status]).toEqual([method, path, 401]);
  }
});

it("a header or a URL of 20 KB is answered 431", async () => {
  for (const [method, path] of await routes()) {
    const long = "x".repeat(20_000);
    for (const answer of [
      await answerTo(method, path, { headers: { "x-long": long } }),
      await answerTo(method, `${path}?q=${long}`, {}),
    ]) {
      expect([method, path, answer.status, answer.body.code]).toEqual([method, path, 431, "headers-too-large"]);
      expect(answer.type).toBe("application/problem+json");
    }
  }
});

it("a URL of 15 KB and a thousand headers are no reason to fail", async () => {
  const headers = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`x-${i}`, "1"]));
  for (const [method, path] of await routes()) {
    for (const answer of [
      await answerTo(method, `${path}/${"x".repeat(15_000)}`, {}),
      await answerTo(method, `${path}?q=${"x".repeat(14_000)}`, {}),
      await answerTo(method, path, { headers }),
    ]) {
      expect([method, path, answer.status < 500]).toEqual([method, path, true]);
    }
  }
});
