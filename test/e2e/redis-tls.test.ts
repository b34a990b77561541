// With rediss://, traffic to Redis is encrypted, and goes only to a Redis whose certificate has the name in the URL.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, it } from "vitest";
import { askAtOnce } from "../fixtures/clients/requests.ts";
import { freePort, freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { Program } from "../fixtures/servers/program.ts";
import { until } from "../fixtures/until.ts";

const tls = resolve(import.meta.dirname, "../fixtures/tls");
const password = "p@ss:wörd/%";
const policy = {
  name: "fleet",
  scope: "cluster",
  onStoreFailure: "deny",
  onLimit: { status: 503 },
  match: { paths: ["/fleet"] },
  limits: [{ algorithm: "fixed-window", quota: 3, window: "366d" }],
};

let port: number;
let server: Program;
/** Stops what a test has started besides the server. */
const stopOthers: (() => Promise<void>)[] = [];
beforeAll(async () => {
  port = await freePort();
  server = await Program.start({
    command: "redis-server",
    args: [
      ...["--port", "0", "--tls-port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--requirepass", password],
      ...["--tls-auth-clients", "no", "--tls-ca-cert-file", join(tls, "authority.pem")],
      ...["--tls-cert-file", join(tls, "localhost.pem"), "--tls-key-file", join(tls, "localhost.key")],
    ],
    readyWhen: /Ready to accept connections/,
  });
});
afterAll(async () => {
  await Promise.all(stopOthers.map((stop) => stop()));
  await server?.stop();
});

/** @param trusted the file of certificates that nginx trusts */
const startAt = async (url: string, trusted = join(tls, "authority.pem")) => {
  const gateway = await LoneGateway.start({
    policies: [policy],
    env: { SLUICE_REDIS_URL: url, SLUICE_REDIS_DEADLINE_MS: "5000" },
    edit: (config) => config.replace(/lua_ssl_trusted_certificate .*;/, `lua_ssl_trusted_certificate ${trusted};`),
  });
  stopOthers.push(() => gateway.stop());
  return gateway;
};
/** @param host the host in the URL */
const start = (host: string, trusted?: string) =>
  startAt(`rediss://:${encodeURIComponent(password)}@${host}:${port}/2`, trusted);
const ask = (gateway: LoneGateway) => askAtOnce([`${gateway.url}/fleet`], 10);

it.concurrent("counts in a Redis whose certificate is trusted and has its name, signed in and on its database", async ({
  expect,
}) => {
  const gateway = await start("localhost");
  // The upstream of this test answers 404.
  expect(await ask(gateway)).toEqual({ 404: 3, 503: 7 });
  const client = new Redis({ host: "127.0.0.1", port, password, db: 2, tls: { rejectUnauthorized: false } });
  expect(await client.keys("sluice:s3:*")).toHaveLength(1);
  client.disconnect();
});

it.concurrent("sends nothing to a Redis whose certificate has another name", async ({ expect }) => {
  const gateway = await start("127.0.0.1");
  expect(await ask(gateway)).toEqual({ 503: 10 });
  expect(gateway.log).toMatch(/Redis did not decide: tls: .*host mismatch/);
});

it.concurrent("sends nothing to a Redis whose certificate is not trusted", async ({ expect }) => {
  const gateway = await start("localhost", "/etc/ssl/certs/ca-certificates.crt");
  expect(await ask(gateway)).toEqual({ 503: 10 });
  expect(gateway.log).toMatch(/Redis did not decide: tls: .*certificate/);
});

describe.concurrent("with a primary that a sentinel names,", () => {
  /** @param announce whether the sentinel reports the primary by its name, or by its address */
  const startSentinel = async (announce: "yes" | "no") => {
    const directory = mkdtempSync(join(tmpdir(), "sluice-tls-sentinel-"));
    const sentinelPort = await freePort();
    const file = join(directory, "sentinel.conf");
    const lines = [
      ...["port 0", `tls-port ${sentinelPort}`, "bind 127.0.0.1", `dir ${directory}`],
      ...[`tls-cert-file ${join(tls, "localhost.pem")}`, `tls-key-file ${join(tls, "localhost.key")}`],
      ...[`tls-ca-cert-file ${join(tls, "authority.pem")}`, "tls-auth-clients no", "tls-replication yes"],
      ...["sentinel resolve-hostnames yes", `sentinel announce-hostnames ${announce}`],
      ...[`sentinel monitor fleet localhost ${port} 1`, `sentinel auth-pass fleet ${password}`],
    ];
    writeFileSync(file, `${lines.join("\n")}\n`);
    const sentinel = await Program.start({
      command: "redis-server",
      args: [file, "--sentinel"],
      readyWhen: /\+monitor/,
    });
    stopOthers.push(async () => {
      await sentinel.stop("SIGKILL");
      rmSync(directory, { recursive: true, force: true });
    });
    return `rediss+sentinel://:${encodeURIComponent(password)}@localhost:${sentinelPort}/fleet/3`;
  };

  it("counts if both certificates have the names by which the servers are reached", async ({ expect }) => {
    const gateway = await startAt(await startSentinel("yes"));
    expect(await ask(gateway)).toEqual({ 404: 3, 503: 7 });
    const client = new Redis({ host: "127.0.0.1", port, password, db: 3, tls: { rejectUnauthorized: false } });
    expect(await client.keys("sluice:s3:*")).toHaveLength(1);
    client.disconnect();
  });

  it("sends nothing to a primary that the sentinel names by its address", async ({ expect }) => {
    const gateway = await startAt(await startSentinel("no"));
    expect(await ask(gateway)).toEqual({ 503: 10 });
    expect(gateway.log).toMatch(/Redis did not decide: tls: .*host mismatch/);
  });
});

describe.concurrent("with a cluster,", () => {
  /** @param args how the node announces itself */
  const startCluster = async (args: readonly string[]) => {
    const directory = mkdtempSync(join(tmpdir(), "sluice-tls-cluster-"));
    const [clusterPort, busPort] = (await freePorts(2)) as [number, number];
    const node = await Program.start({
      command: "redis-server",
      args: [
        ...["--port", "0", "--tls-port", `${clusterPort}`, "--bind", "127.0.0.1", "--save", "", "--dir", directory],
        ...["--tls-auth-clients", "no", "--tls-ca-cert-file", join(tls, "authority.pem"), "--tls-cluster", "yes"],
        ...["--tls-cert-file", join(tls, "localhost.pem"), "--tls-key-file", join(tls, "localhost.key")],
        ...["--cluster-enabled", "yes", "--cluster-port", `${busPort}`, ...args],
      ],
      readyWhen: /Ready to accept connections/,
    });
    stopOthers.push(async () => {
      await node.stop();
      rmSync(directory, { recursive: true, force: true });
    });
    const client = new Redis({ host: "127.0.0.1", port: clusterPort, tls: { rejectUnauthorized: false } });
    await client.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
    await until("the cluster is up", async () =>
      String(await client.call("CLUSTER", "INFO")).includes("cluster_state:ok"),
    );
    client.disconnect();
    return `rediss+cluster://localhost:${clusterPort}`;
  };

  it("counts if nodes announce the names of their certificates", async ({ expect }) => {
    const named = ["--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"];
    const gateway = await startAt(await startCluster(named));
    expect(await ask(gateway)).toEqual({ 404: 3, 503: 7 });
  });

  it("sends nothing to a node whose certificate does not have the name that the cluster announces", async ({
    expect,
  }) => {
    const gateway = await startAt(await startCluster(["--cluster-announce-ip", "127.0.0.1"]));
    expect(await ask(gateway)).toEqual({ 503: 10 });
    expect(gateway.log).toMatch(/Redis did not decide: tls: .*host mismatch/);
  });
});
