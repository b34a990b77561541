import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { sql } from "kysely";
import { describe, expect, it } from "vitest";
import { errorCatalogue } from "../../../control-plane/src/errors/catalogue.ts";
import {
  gatewayToken,
  onePerSecond,
  perSecond,
  sharedControlPlane,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";

describe("errors", () => {
  const shared = sharedControlPlane();

  it("are documented code by code", async () => {
    const page = await readFile(new URL("../../../docs/errors.md", import.meta.url), "utf8");
    const documented = [...page.matchAll(/^\| `([a-z-]+)` \| (\d+) \| (.+) \|$/gm)].map(([, ...row]) => row);
    const known = Object.entries(errorCatalogue).map(([code, { status, meaning }]) => [code, String(status), meaning]);
    expect(documented).toEqual(known);
  });

  const cases: [
    string,
    string,
    string,
    Parameters<Awaited<ReturnType<typeof startControlPlane>>["call"]>[2],
    number,
    string,
  ][] = [
    ["an unknown URL", "GET", "nowhere", {}, 404, "not-found"],
    ["an unknown URL of the API", "GET", "/nowhere", {}, 404, "not-found"],
    ["a method that a URL does not have", "PATCH", "/apps/default", {}, 405, "method-not-allowed"],
    ["an absurdly long name", "GET", `/apps/${"a".repeat(2000)}`, {}, 404, "not-found"],
    [
      "a media type nobody reads",
      "PUT",
      "/apps/default/policies/p",
      { text: "a=1", type: "application/x-www-form-urlencoded" },
      415,
      "unsupported-media-type",
    ],
    [
      "a body over 256 KiB",
      "PUT",
      "/apps/default/policies/p",
      { text: " ".repeat(256 * 1024 + 1) },
      413,
      "body-too-large",
    ],
    ["a URL that does not decode", "GET", "/apps/%zz", {}, 400, "bad-request"],
    ["a URL of 51 parameters", "GET", `/apps?${"a&".repeat(50)}a`, {}, 400, "bad-request"],
    ["a URL whose path is longer than 4,096 bytes", "GET", `/apps/${"a".repeat(4_096)}`, {}, 400, "bad-request"],
    ["a plain GET of the push socket", "GET", "/push", { token: gatewayToken }, 426, "upgrade-required"],
  ];

  it.each(cases)("answers %s with a problem", async (_, method, path, options, status, code) => {
    const { call } = shared();
    const answer = await call(method, path, options);
    expect([answer.status, answer.body.code, answer.body.status]).toEqual([status, code, status]);
    expect(answer.headers.get("content-type")).toContain("application/problem+json");
    expect(answer.body.title).toBe(errorCatalogue[code as keyof typeof errorCatalogue].title);
  });

  it("lists the methods that a URL has", async () => {
    const { call } = shared();
    expect((await call("POST", "/apps/default/policies/p", { body: {} })).headers.get("allow")).toBe(
      "DELETE, GET, HEAD, PUT",
    );
  });

  it.each([
    ["wait=5", "wait", 'a duration from 0s to 60s, like "5s"', '"5"'],
    ["wait=61s", "wait", 'a duration from 0s to 60s, like "5s"', '"61s"'],
    ["wait=-1s", "wait", 'a duration from 0s to 60s, like "5s"', '"-1s"'],
    ["wiat=5s", "wiat", "no such parameter; known here: wait, dryRun, strict", '"5s"'],
  ])("refuses ?%s and changes nothing", async (query, path, expected, got) => {
    const { call } = shared();
    const { status, body } = await call("PUT", `/apps/default/policies/p?${query}`, { body: onePerSecond });
    expect([status, body.code, body.errors]).toEqual([400, "invalid-request", [{ path, expected, got }]]);
    expect((await call("GET", "/revisions")).body.revisions).toEqual([]);
  });

  it("says what came with a Content-Type or an If-Match that is wrong", async () => {
    const { call } = shared();
    const typed = await call("PUT", "/apps/default/policies/p", { text: "a,b", type: "text/csv" });
    expect(typed.body.detail).toBe('Content-Type: expected application/json or application/yaml, got "text/csv".');
    const current = (await call("GET", "/apps/default")).headers.get("etag") ?? "";
    const unquoted = current.replaceAll('"', "");
    const app = await call("PUT", "/apps/default", { body: {}, headers: { "if-match": unquoted } });
    expect([app.status, app.body.detail]).toEqual([
      412,
      `If-Match: expected the current version, ${current}, got ${unquoted}.`,
    ]);
    const none = await call("PUT", "/apps/default/policies/p", { body: onePerSecond, headers: { "if-match": "*" } });
    expect(none.body.detail).toBe("If-Match: expected a version that is stored, got *; there is none.");
  });

  it.each(["0", "1001", "x", "1.5", "1e999", "-1e999", "Infinity"])("refuses pages of %s", async (limit) => {
    const { call } = shared();
    const { status, body } = await call("GET", `/apps/default/policies?limit=${limit}`);
    expect([status, body.errors[0].path, body.errors[0].expected]).toEqual([400, "limit", "an integer from 1 to 1000"]);
  });

  it("answers a handshake that is none with a problem", async () => {
    const head = ["GET /api/v1/push HTTP/1.1", "Host: x", "Connection: upgrade", "Upgrade: websocket"];
    const answer = await sendBytes([...head, `Authorization: Bearer ${gatewayToken}`, "", ""].join("\r\n"));
    expect(answer).toMatch(/^HTTP\/1.1 400 Bad Request\r\nContent-Type: application\/problem\+json/);
    expect(answer).toContain("no handshake of a WebSocket: Missing or invalid Sec-WebSocket-Key header.");
  });

  async function sendBytes(text: string): Promise<string> {
    const socket = connect(Number(new URL(shared().url).port), "127.0.0.1");
    socket.write(text);
    let answer = "";
    socket.on("data", (data) => (answer += data.toString()));
    await once(socket, "end");
    socket.destroy();
    return answer;
  }

  it("answers bytes that are not HTTP with a problem too", async () => {
    const answer = await sendBytes("this is not HTTP\r\n\r\n");
    expect(answer).toMatch(/^HTTP\/1.1 400 Bad Request\r\nContent-Type: application\/problem\+json/);
    expect(answer).toContain('"code":"bad-request"');
  });

  it("shows nothing of its inside when it fails", async () => {
    const lines: string[] = [];
    const { app, call } = await startControlPlane(
      { SLUICE_LOG_LEVEL: "error" },
      { logTo: { write: (line) => void lines.push(line) } },
    );
    await app.database.schema.dropTable("revisions").execute();
    const { status, body } = await call("GET", "/revisions");
    expect([status, body.code]).toEqual([500, "internal"]);
    expect(JSON.stringify(body)).not.toMatch(/table|sqlite|select|\.ts/i);
    expect(lines.join("")).toContain("no such table");
    expect(lines.join("")).toContain(body.requestId);
  });

  it("reports a full disk, changes nothing then, and works again once there is room", async () => {
    const { app, call } = await startControlPlane();
    const path = "/apps/default/policies/a";
    // This is like a disk without another page: SQLite's own bound raises the same error.
    const boundPages = (most: number) => sql.raw(`pragma max_page_count = ${most}`).execute(app.database);
    const { rows } = await sql<{ page_count: number }>`pragma page_count`.execute(app.database);
    await boundPages((rows[0]?.page_count ?? 0) + 2);
    const put = (quota: number) => call("PUT", path, { body: perSecond(quota) });
    let quota = 1;
    let answer = await put(quota);
    while (answer.status < 300 && quota < 1000) {
      quota += 1;
      answer = await put(quota);
    }
    expect([answer.status, answer.body.code]).toEqual([507, "storage-full"]);
    expect((await call("GET", path)).body.limits).toMatchObject([{ quota: quota - 1 }]);
    await boundPages(1_000_000);
    expect((await put(2000)).status).toBe(200);
  });

  it("reports not ready when the database does not answer", async () => {
    const { app, call } = await startControlPlane();
    await app.database.destroy();
    expect((await call("GET", "healthz")).status).toBe(200);
    expect(await call("GET", "readyz")).toMatchObject({ status: 503, body: { code: "not-ready" } });
  });
});
