// What the control plane's log says of requests, and what it never says.

import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { ask } from "../../fixtures/clients/requests.ts";
import {
  adminToken,
  gatewayToken,
  onePerSecond,
  type Running,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway, openSocket } from "../../fixtures/servers/gateway-double.ts";
import { untilPasses } from "../../fixtures/until.ts";

interface Logged extends Running {
  readonly text: () => string;
  readonly lines: () => Record<string, unknown>[];
  /** Lines about requests, once there are so many. */
  answered(count: number): Promise<Record<string, unknown>[]>;
}

async function start(level: string, environment: Record<string, string> = {}): Promise<Logged> {
  const written: string[] = [];
  const logTo = { write: (line: string) => void written.push(line) };
  const running = await startControlPlane({ SLUICE_LOG_LEVEL: level, ...environment }, { logTo });
  const text = () => written.join("");
  const lines = () => written.map((line) => JSON.parse(line));
  return {
    ...running,
    text,
    lines,
    answered: (count) =>
      untilPasses(() => {
        const found = lines().filter(({ msg }) => msg === "answered");
        expect(found).toHaveLength(count);
        return found;
      }),
  };
}

describe("each request", () => {
  it("has one line with method, route, status, time, caller and address", async () => {
    const running = await start("info");
    await running.call("PUT", "/apps/default/policies/books?wait=0s", { body: onePerSecond });
    await running.call("GET", "/apps/secret-name/policies", { token: "wrong-token-0123456789" });
    await running.call("GET", "/nowhere/at-all");
    await running.call("GET", "/push");
    await running.call("GET", "/secret-name/%ff", { headers: { "x-request-id": "mine" } });
    const [put, refused, missing, forbidden, malformed] = await running.answered(5);
    expect(put).toMatchObject({
      level: 30,
      method: "PUT",
      route: "/api/v1/apps/:app/policies/:policy",
      status: 201,
      caller: { who: "environment" },
      address: "127.0.0.1",
    });
    expect(put?.["ms"]).toBeGreaterThan(0);
    expect(refused).toMatchObject({ route: "/api/v1/apps/:app/policies", status: 401 });
    expect(refused).not.toHaveProperty("caller");
    expect(missing).toMatchObject({ method: "GET", route: "unknown", status: 404 });
    expect(forbidden).toMatchObject({ status: 403, caller: { who: "environment" } });
    expect(malformed).toMatchObject({ requestId: "mine", route: "unknown", status: 400 });
    expect(running.text()).not.toMatch(/secret-name|nowhere|wait=/);
  });

  it("has the id that the client gave it, in the answer and in each line", async () => {
    const running = await start("info");
    const { headers } = await running.call("GET", "/apps", { headers: { "x-request-id": "deploy-42/step:7" } });
    expect(headers.get("x-request-id")).toBe("deploy-42/step:7");
    const [line] = await running.answered(1);
    expect(line?.["requestId"]).toBe("deploy-42/step:7");
  });

  it.each(["", "with blank", "a\tb", '"', "x".repeat(129), "é"])(
    "has an id of our own if the client's is not well-formed (%j)",
    async (given) => {
      const { url } = await start("silent");
      const { headers } = await ask(`${url}/healthz`, { headers: { "x-request-id": given } });
      expect(headers["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
    },
  );

  it("that fails has its id in the line about the error and in the answer", async () => {
    const running = await start("info");
    await running.app.database.schema.dropTable("revisions").execute();
    const { body, headers } = await running.call("GET", "/revisions");
    expect(body.requestId).toBe(headers.get("x-request-id"));
    await running.answered(1);
    const failed = running.lines().find(({ msg }) => msg === "request failed");
    expect(failed).toMatchObject({
      requestId: body.requestId,
      err: { message: expect.stringContaining("no such table") },
    });
  });

  it("of a probe has a line at debug only", async () => {
    const running = await start("info");
    for (const path of ["healthz", "readyz", "metrics"]) await running.call("GET", path);
    await running.call("GET", "/apps");
    expect(await running.answered(1)).toMatchObject([{ route: "/api/v1/apps" }]);
  });
});

describe("the log, at the level trace,", () => {
  const secrets = {
    wrong: "wrong-token-of-somebody-0123456789",
    cookie: "sluice_session=cookie-of-somebody-0123456789",
    basic: Buffer.from("somebody:password-of-somebody").toString("base64"),
    query: "query-secret-of-somebody",
    redis: "redis-password-of-somebody",
    database: "database-password-of-somebody",
  };

  it("has no token, cookie, password or header of those who sign in, also where requests fail", async () => {
    const running = await start("trace", {
      SLUICE_REDIS_URL: `redis://operator:${secrets.redis}@127.0.0.1:1/`,
      SLUICE_API_RATE: "1:60",
      SLUICE_FAILED_SIGN_IN_RATE: "1:20",
    });
    const { call, url } = running;
    const made: string[] = [];
    for (const role of ["viewer", "editor", "owner", "caller"]) {
      made.push((await call("POST", "/tokens", { body: { name: role, app: "default", role } })).body.token);
    }
    await call("POST", "/members", { body: { name: "ann", roles: { default: "owner" } } });
    made.push((await call("POST", "/tokens", { body: { name: "laptop", member: "ann" } })).body.token);
    const headers = { cookie: secrets.cookie, "x-token": secrets.wrong };
    for (const token of [...made, secrets.wrong]) {
      for (const path of ["/apps/default", `/apps/default/policies?token=${secrets.query}`, "/members", "/%ff"]) {
        await call("GET", path, { token, headers });
      }
      await call("POST", "/tokens", { token, text: `{"name":"x","token":"${secrets.query}"`, headers });
      await call("POST", "/tokens", { token, body: { name: secrets.query, role: secrets.query }, headers });
      await call("POST", "/tokens", { token, type: "text/plain", text: secrets.query, headers });
    }
    await ask(`${url}/api/v1/apps`, { headers: { authorization: `Basic ${secrets.basic}` } });
    await connectGateway(running, "edge-1");
    await expect(openSocket(url, { headers: { authorization: `Bearer ${secrets.wrong}` } })).rejects.toThrow("401");
    // Over every limit, then without a database.
    await Promise.all(Array.from({ length: 80 }, () => call("GET", "/apps", { token: made[0] })));
    await Promise.all(Array.from({ length: 30 }, (_, i) => call("GET", "/apps", { token: `${secrets.wrong}${i}` })));
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.end(`GET / HTTP/1.1\r\nauthorization: Bearer ${secrets.wrong}\r\nbroken\r\n\r\n`);
    socket.resume();
    await once(socket, "close");
    await running.app.database.destroy();
    await call("GET", "/apps", { token: adminToken, headers });
    await call("PUT", "/apps/default/policies/a", { body: { ...onePerSecond, description: "a policy" } });
    await untilPasses(() => expect(running.text()).toContain("Redis does not do"));
    const lines = running.lines();
    expect(lines.length).toBeGreaterThan(100);
    expect(running.text()).toContain("request failed");
    for (const secret of [...made, ...Object.values(secrets), adminToken, gatewayToken]) {
      expect(running.text()).not.toContain(secret);
    }
    expect(running.text()).not.toMatch(/bearer (?!\[redacted\])/i);
  });

  it("has no secrets that drivers attach to their errors", async () => {
    const { app, text } = await start("trace");
    const cause = Object.assign(new Error(`cannot connect to mysql://sluice:${secrets.database}@db.test:3306/sluice`), {
      config: { password: secrets.database },
    });
    const error = Object.assign(new Error(`AUTH failed; authorization: Bearer ${secrets.wrong}`, { cause }), {
      command: { name: "auth", args: ["operator", secrets.redis] },
      sql: `insert into tokens values ('${secrets.query}')`,
      code: "ECONNREFUSED",
    });
    app.log.error({ err: error }, "a driver failed");
    app.log.error({ error: new AggregateError([error], "all failed") }, "again");
    app.log.error({
      client_secret: secrets.query,
      headers: { cookie: secrets.cookie },
      a: { b: { token: secrets.wrong } },
    });
    expect(text()).toContain("ECONNREFUSED");
    expect(text()).toContain("mysql://sluice:[redacted]@db.test:3306/sluice");
    for (const secret of Object.values(secrets)) expect(text()).not.toContain(secret);
  });
});
