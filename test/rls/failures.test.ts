// What Envoy hears when the gateway is away, silent or refuses the token, when too many calls come, and when the service is stopped.

import { connect } from "node:net";
import { type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Caller, callerOf } from "../fixtures/clients/check-api-client.ts";
import { descriptor, type EnvoyAnswer, EnvoyClient } from "../fixtures/clients/envoy-client.ts";
import { healthOf } from "../fixtures/clients/grpc-health.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RateLimitService, type ServiceOptions } from "../fixtures/servers/rate-limit-service.ts";
import { childrenOf } from "../fixtures/servers/system.ts";
import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { until } from "../fixtures/until.ts";

const envoy: Caller = { app: "default", token: "a-token-of-envoy" };
const request = { domain: "edge", descriptors: [descriptor("user", "ann")] };

let gateway: LoneGateway;
let service: RateLimitService | undefined;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      {
        name: "edge-user",
        match: { paths: ["/elsewhere"] },
        key: ["header:x-user"],
        limits: [{ algorithm: "token-bucket", quota: 1_000_000, window: "1h" }],
      },
    ],
    callers: [callerOf(envoy)],
  });
});
afterAll(() => gateway?.stop());
afterEach(() => service?.stop());

const start = async (options: Partial<ServiceOptions> = {}) => {
  service = await RateLimitService.start({ gateway: gateway.privateUrl, token: envoy.token, ...options });
  return service;
};
/** Stops the gateway's worker, so that it accepts connections and answers nothing. */
const silence = () => {
  const workers = childrenOf(gateway.pid);
  expect(workers).toHaveLength(1);
  for (const pid of workers) process.kill(pid, "SIGSTOP");
  return () => workers.forEach((pid) => void process.kill(pid, "SIGCONT"));
};
const codeOf = (call: Promise<EnvoyAnswer>) =>
  call.then(
    ({ overallCode }) => overallCode,
    ({ code }: ServiceError) => status[code],
  );

describe("a gateway that is away", () => {
  it.each([
    ["error", "UNAVAILABLE"],
    ["allow", "OK"],
    ["deny", "OVER_LIMIT"],
  ])("is answered as SLUICE_RLS_ON_FAILURE=%s says: %s", async (onFailure, code) => {
    const { client, program } = await start({
      gateway: `http://127.0.0.1:${await freePort()}`,
      env: { SLUICE_RLS_ON_FAILURE: onFailure },
    });
    for (let i = 0; i < 3; i++) expect(await codeOf(client.ask(request))).toBe(code);
    const lines = () => program.output.match(/sluice: rate limit service: .*ECONNREFUSED/g) ?? [];
    await until("it is printed", () => lines().length > 0);
    expect(lines()).toHaveLength(1);
  });

  it("is asked again soon after it has come", async () => {
    const proxy = await TcpProxy.start(Number(new URL(gateway.privateUrl).port));
    try {
      const { client } = await start({ gateway: `http://127.0.0.1:${proxy.port}` });
      expect(await codeOf(client.ask(request))).toBe("OK");
      await proxy.refuse();
      expect(await codeOf(client.ask(request))).toBe("UNAVAILABLE");
      await proxy.accept();
      await until("it answers", async () => (await codeOf(client.ask(request))) === "OK");
    } finally {
      await proxy.refuse();
    }
  });

  it("is a mistake of the operator if it refuses the token", async () => {
    const { client, program } = await start({ token: "a-token-of-nobody" });
    await expect(client.ask(request)).rejects.toThrow("FAILED_PRECONDITION: SLUICE_RLS_TOKEN: unauthorized (401)");
    const said = "sluice: rate limit service: SLUICE_RLS_TOKEN: unauthorized";
    await until("it is printed", () => program.output.includes(said));
    expect(program.output).not.toContain("a-token-of-nobody");
  });

  it("is not waited for beyond the deadline", async () => {
    const { client } = await start({ env: { SLUICE_RLS_DEADLINE_MS: "300" } });
    const wake = silence();
    try {
      // The gateway is silent until it is woken.
      await expect(client.ask(request)).rejects.toThrow("UNAVAILABLE: The gateway did not answer within");
    } finally {
      wake();
    }
  });
});

describe("too many calls at once", () => {
  it.each([
    ["more than SLUICE_RLS_MAX_PENDING", { SLUICE_RLS_MAX_PENDING: "5" }, request, 20, 5],
    ["more than 32 MiB", {}, { domain: "edge", descriptors: [descriptor("user", "v".repeat(510 * 1024))] }, 80, 64],
    [
      "more than 30,000 descriptors",
      {},
      { domain: "edge", descriptors: Array(100).fill(request.descriptors[0]) },
      310,
      303,
    ],
  ])("%s are refused at once, and the others are answered", async (_, env, asked, count, taken) => {
    const { client } = await start({ env: { SLUICE_RLS_DEADLINE_MS: "20000", ...env } });
    const wake = silence();
    let calls: Promise<string | undefined>[];
    try {
      calls = Array.from({ length: count }, () => codeOf(client.ask(asked)));
      let refused = 0;
      for (const call of calls) void call.then((code) => (refused += code === "RESOURCE_EXHAUSTED" ? 1 : 0));
      await until("the rest is refused", () => refused === count - taken);
    } finally {
      wake();
    }
    expect((await Promise.all(calls)).filter((code) => code === "OK")).toHaveLength(taken);
    expect(await codeOf(client.ask(asked))).toBe("OK");
  });
});

describe("a service that is stopped", () => {
  it("answers the calls that it has, and takes no others", async () => {
    const { client, program, address } = await start();
    expect(await healthOf(address)).toBe("SERVING");
    await client.ask(request);
    const wake = silence();
    let calls: Promise<string | undefined>[];
    let ended: Promise<void>;
    try {
      calls = Array.from({ length: 200 }, () => codeOf(client.ask(request)));
      // A call that is answered at once shows that the others have come before it.
      await client.ask({ domain: "", descriptors: [] }).catch(() => undefined);
      ended = program.stop("SIGTERM");
      await until("it takes no more", () => isClosed(address));
      expect(program.isRunning).toBe(true);
    } finally {
      wake();
    }
    expect(new Set(await Promise.all(calls))).toEqual(new Set(["OK"]));
    await ended;
    expect(program.child.exitCode).toBe(0);
    const late = new EnvoyClient(address);
    expect(await codeOf(late.ask(request))).toBe("UNAVAILABLE");
    late.close();
  });

  it("ends at once when nobody calls, also if connections are open", async () => {
    const { client, program } = await start();
    await client.ask(request);
    await program.stop("SIGTERM");
    expect(program.child.exitCode).toBe(0);
  });

  it("ends after the deadline, even if the gateway says nothing", async () => {
    const { client, program } = await start({ env: { SLUICE_RLS_DEADLINE_MS: "500" } });
    await client.ask(request);
    const wake = silence();
    try {
      const call = codeOf(client.ask(request));
      await client.ask({ domain: "", descriptors: [] }).catch(() => undefined);
      await program.stop("SIGTERM");
      expect(program.child.exitCode).toBe(0);
      expect(await call).toBe("UNAVAILABLE");
    } finally {
      wake();
    }
  });
});

function isClosed(address: string): Promise<boolean> {
  const { hostname, port } = new URL(`http://${address}`);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    socket.on("connect", () => resolve(false));
    socket.on("error", () => resolve(true));
    socket.on("connect", () => socket.destroy());
  });
}
