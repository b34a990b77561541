// Bodies of many policies that are made to take memory or time, or that never end: nothing is stored, and nobody else waits.

import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { Readable } from "node:stream";
import { json } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import {
  type Answer,
  adminToken,
  perSecond,
  type Running,
  send,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";

const pathTo = (what: string) => `/api/v1/apps/default/${what}`;
const path = pathTo("policies");
const jsonl = "application/jsonl";
const named = (name: string) => `${JSON.stringify({ name, ...perSecond(1) })}\n`;

/** @param body chunks, which are sent as fast as they are read */
async function stream(
  url: string,
  body: Iterable<Buffer> | AsyncIterable<Buffer>,
  type = jsonl,
  token = adminToken,
  to = path,
) {
  const headers = { authorization: `Bearer ${token}`, "content-type": type };
  const outgoing = request(url + to, { method: "PUT", headers });
  // What was not sent yet when the answer came.
  const sent = pipeline(Readable.from(body), outgoing).catch(() => undefined);
  const [incoming] = (await once(outgoing, "response")) as [IncomingMessage];
  const answer = { status: incoming.statusCode, body: (await json(incoming)) as Answer["body"] };
  outgoing.destroy();
  await sent;
  return answer;
}

function* repeated(chunk: string, times: number): Generator<Buffer> {
  const bytes = Buffer.from(chunk);
  for (let i = 0; i < times; i++) yield bytes;
}

function* chain(...parts: Iterable<Buffer>[]): Generator<Buffer> {
  for (const part of parts) yield* part;
}

const policiesOf = async ({ call }: Pick<Running, "call">) =>
  (await call("GET", "/apps/default/policies")).body.policies;
/** The longest that anybody may have to wait for the processor. */
const mostTurnMs = 100;

describe("a body of many policies", () => {
  it("with a line of 50 MB says which line, and reads the others", async () => {
    const { url, longestTurnMs } = await startMeasuredProcess();
    await send(url, "GET", "/apps", {});
    await longestTurnMs();
    const megabyte = "x".repeat(1_000_000);
    const body = chain(repeated(named("a"), 1), repeated(megabyte, 50), repeated("\n{\n", 1));
    const answer = await stream(url, body);
    expect([answer.status, answer.body.code]).toEqual([400, "malformed-body"]);
    expect(answer.body.errors).toMatchObject([
      {
        line: 2,
        expected: "a document of at most 256 KiB",
        got: "more, without a line end or --- in it (curl needs --data-binary)",
      },
      { line: 3, expected: "JSON on one line" },
    ]);
    expect(await longestTurnMs()).toBeLessThan(mostTurnMs);
    expect((await send(url, "GET", "/apps/default/policies", {})).body.policies).toEqual([]);
  });

  it("of more than 64 MiB is refused, by what it announces or by what comes", async () => {
    const { url, call } = await startControlPlane();
    const answer = await stream(url, repeated("\n".repeat(1_000_000), 70));
    expect([answer.status, answer.body.code]).toEqual([413, "body-too-large"]);
    expect(answer.body.detail).toBe("The body is larger than 64 MiB, the most for many documents. Nothing was stored.");
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.write(
      `PUT ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminToken}\r\ncontent-type: ${jsonl}\r\ncontent-length: 70000000\r\n\r\n`,
    );
    const [first] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    expect(first.toString()).toMatch(/^HTTP\/1.1 413 /);
    expect(await policiesOf({ call })).toEqual([]);
  });

  it("of a million empty lines is read in short turns", async () => {
    const { url, longestTurnMs } = await startMeasuredProcess();
    await send(url, "GET", "/apps", {});
    for (const type of [jsonl, "application/yaml"]) {
      await longestTurnMs();
      const last = type === jsonl ? named("a") : `---\n${named("a")}`;
      const answer = await stream(url, chain(repeated("\n".repeat(100_000), 10), repeated(last, 1)), type);
      expect(answer.status).toBe(200);
      expect(await longestTurnMs()).toBeLessThan(mostTurnMs);
    }
  });

  it("of YAML that stands for much more, or is nested too deeply, says the line and stores nothing", async () => {
    const { url, call } = await startControlPlane();
    const bomb = ["a: &a [x, x, x, x, x, x, x, x, x, x]"];
    for (let i = 0; i < 8; i++) {
      const [from, to] = ["abcdefghi"[i], "abcdefghi"[i + 1]];
      bomb.push(`${to}: &${to} [${Array(10).fill(`*${from}`).join(", ")}]`);
    }
    const text = `name: fine\nlimits: [{ algorithm: fixed-window, quota: 1, window: 1s }]\n---\n${bomb.join("\n")}\n---\n${"[".repeat(40)}\n`;
    const { status, body } = await stream(url, repeated(text, 1), "application/yaml");
    expect([status, body.code]).toEqual([400, "malformed-body"]);
    const errors = body.errors as { line: number; got: string }[];
    expect(errors.map(({ line }) => line > 3)).toEqual([true, true]);
    expect(errors[0]?.got).toContain("with its aliases written out");
    expect(errors[1]?.got).toContain("more than 32 deep");
    expect(await policiesOf({ call })).toEqual([]);
  });

  it.each([
    ["whose client goes away", true],
    ["that stops in the middle until its time is up", false],
  ])("%s stores nothing, and keeps nobody from changes meanwhile", async (_, goesAway) => {
    const httpTimes = { headersMs: 1_000, requestMs: 1_500, silenceMs: 2_000, keepAliveMs: 1_000, checkEveryMs: 50 };
    const running = await startControlPlane({}, { httpTimes });
    const socket = connect(Number(new URL(running.url).port), "127.0.0.1");
    let received = "";
    socket.on("data", (data) => (received += data.toString()));
    socket.on("error", () => undefined);
    const line = named("a");
    socket.write(
      `PUT ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminToken}\r\ncontent-type: ${jsonl}\r\ncontent-length: ${2 * line.length}\r\n\r\n${line}`,
    );
    // It has begun by now. If the machine is too busy for that, it begins after the change, and stores nothing either.
    await sleep(100);
    expect((await running.call("PUT", "/apps/default/policies/b", { body: perSecond(1) })).status).toBe(201);
    if (goesAway) socket.destroy();
    else {
      await once(socket, "close");
      expect(received).toMatch(/^HTTP\/1.1 408 /);
    }
    expect((await stream(running.url, repeated(named("c"), 1))).status).toBe(200);
    expect((await policiesOf(running)).map(({ name }: { name: string }) => name)).toEqual(["b", "c"]);
    expect((await running.call("GET", "/revisions")).body.revisions).toHaveLength(2);
  });

  it("from somebody who is disabled while it arrives is refused at its end", async () => {
    const running = await startControlPlane();
    const token = (await running.call("POST", "/tokens", { body: { name: "t", app: "default", role: "editor" } })).body;
    async function* slowly() {
      yield Buffer.from(named("a"));
      // By now the sender was identified. On a machine that is too busy for that, the sender is refused then, with the same answer.
      await sleep(200);
      await running.call("DELETE", `/tokens/${token.id}`);
      yield Buffer.from(named("b"));
    }
    const answer = await stream(running.url, slowly(), jsonl, token.token);
    expect([answer.status, answer.body.code]).toEqual([401, "unauthorized"]);
    expect(await policiesOf(running)).toEqual([]);
  });

  it("of thousands of policies is stored in short turns", async () => {
    const { url, longestTurnMs } = await startMeasuredProcess();
    await send(url, "GET", "/apps", {});
    await longestTurnMs();
    const names = Array.from({ length: 5_000 }, (_, i) => named(`p${i}`));
    const answer = await stream(url, repeated(names.join(""), 1));
    expect(answer.body).toMatchObject({ created: 5_000 });
    expect(await longestTurnMs()).toBeLessThan(mostTurnMs);
  });
});

describe("a body of many consumers", () => {
  const to = pathTo("consumers");

  it("of twenty million wrong lines is refused after the first hundred of them", async () => {
    const { url, longestTurnMs } = await startMeasuredProcess();
    await send(url, "GET", "/apps", {});
    await longestTurnMs();
    const answer = await stream(url, repeated("{}\n".repeat(200_000), 100), jsonl, adminToken, to);
    expect([answer.status, answer.body.code]).toEqual([400, "invalid-consumers"]);
    expect(answer.body.errors).toHaveLength(100);
    // Each line lacks an id and a plan.
    expect(answer.body.errors.at(-1).line).toBe(50);
    expect(answer.body.detail).toBe(
      "100 errors in the body, the first on line 1. Lines after these were not read. Nothing was stored.",
    );
    expect(await longestTurnMs()).toBeLessThan(mostTurnMs);
  });

  it("with more lines than the app may have consumers is refused at the first of them", async () => {
    const { url, call } = await startControlPlane();
    await call("PUT", "/apps/default", { body: { bounds: { consumers: 1_000 } } });
    const line = `${JSON.stringify({ id: "a", plan: "pro" })}\n`;
    const lines = Array.from({ length: 1_000 }, (_, i) => line.replace('"a"', `"c${i}"`)).join("");
    const answer = await stream(
      url,
      chain(repeated(lines, 1), repeated(line.repeat(1_000), 2_600)),
      jsonl,
      adminToken,
      to,
    );
    expect([answer.status, answer.body.code]).toEqual([409, "bound-exceeded"]);
    expect(answer.body.errors).toEqual([
      {
        line: 1_001,
        path: "bounds.consumers",
        expected: 'at most 1000 of the app "default"',
        got: "more in the body",
      },
    ]);
    expect((await call("GET", "/apps/default/consumers")).body.count).toBe(0);
  });
});

describe("a list of networks", () => {
  it.each([
    ["line ends alone", "\n", 8_000_000, 201],
    ["lines that are no networks", "x\n", 4_000_000, 400],
  ])(
    "of millions of %s is read in short turns, and no further than to the hundredth fault",
    async (_, line, times, status) => {
      const { url, longestTurnMs } = await startMeasuredProcess();
      await send(url, "GET", "/apps", {});
      await longestTurnMs();
      const body = repeated(line.repeat(times / 10), 10);
      const answer = await stream(url, body, "text/plain", adminToken, pathTo("networks/hostile"));
      expect(answer.status).toBe(status);
      if (status === 400) {
        expect(answer.body.errors.at(-1).line).toBe(100);
        expect(answer.body.detail).toBe("100 errors in the body. Lines after these were not read. Nothing was stored.");
      }
      expect(await longestTurnMs()).toBeLessThan(mostTurnMs);
    },
  );
});

describe("bodies of 63 MiB that never end", () => {
  const consumers = Array.from({ length: 60_000 }, (_, i) => JSON.stringify({ id: `c${i}`, plan: "p".repeat(60) }));
  it.each([
    ["consumers", jsonl, consumers.join("\n")],
    ["policies", jsonl, named("a") + `${" ".repeat(200_000)}\n`.repeat(30)],
    ["networks/office", "text/plain", `# ${"x".repeat(1_000_000)}\n10.0.0.0/8`],
  ])("give way to %s of another app, and each is told so", async (what, type, text) => {
    const { url, call } = await startControlPlane();
    const answers: string[] = [];
    for (const app of ["one", "two", "three"]) await call("PUT", `/apps/${app}`, { body: { realm: {} } });
    const blanks = Buffer.alloc(63 * 1_048_576, `${" ".repeat(100_000)}\n`);
    for (const app of ["one", "two"]) {
      const socket = connect(Number(new URL(url).port), "127.0.0.1");
      onFinished(() => void socket.destroy());
      socket.on("error", () => undefined);
      socket.on("data", (data) => answers.push(data.toString()));
      socket.write(
        `PUT /api/v1/apps/${app}/consumers HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminToken}\r\ncontent-type: ${jsonl}\r\ncontent-length: ${64 * 1_048_576}\r\n\r\n`,
      );
      await new Promise((resolve) => socket.write(blanks, resolve));
    }
    await untilPasses(async () => {
      const { status } = await call("PUT", `/apps/three/${what}`, { text, type });
      expect([200, 201]).toContain(status);
      // The control plane may still read the last of the others.
      expect(answers.length).toBeGreaterThan(0);
    });
    expect(answers[0]).toMatch(/^HTTP\/1\.1 503 .*retry-after: 5\r\n.*gave way.*"code":"bodies-busy"/s);
  });
});
