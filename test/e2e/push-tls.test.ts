// With https:// in SLUICE_CONTROL_URL, a gateway takes policies from, and sends its token to, only a control plane whose
// certificate is trusted and has the configured name. TLS ends in front of a real control plane, as it does at an operator's.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, connect } from "node:net";
import { join, resolve } from "node:path";
import { createServer, type Server, type TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { gatewayToken, System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

const tls = resolve(import.meta.dirname, "../fixtures/tls");
const authority = join(tls, "authority.pem");

let system: System;
let gateway: LoneGateway;
let proxy: Server | undefined;
/** The names that clients requested by SNI, and how many bytes they sent through TLS. */
const seen = { names: [] as TLSSocket["servername"][], bytes: 0 };
beforeAll(async () => {
  system = await System.start({ gateways: 0 });
});
afterAll(() => system?.stop());
afterEach(async () => {
  await gateway?.stop();
  proxy?.close();
});

/** Ends TLS in front of the control plane. @returns its port */
async function encrypt(certificate: "localhost" | "address"): Promise<number> {
  seen.names = [];
  seen.bytes = 0;
  const cert = readFileSync(join(tls, `${certificate}.pem`));
  const key = readFileSync(join(tls, `${certificate}.key`));
  proxy = createServer({ cert, key }, (client: TLSSocket) => {
    seen.names.push(client.servername);
    const server = connect(Number(new URL(system.controlUrl).port), "127.0.0.1");
    client.on("data", (data) => {
      seen.bytes += data.length;
    });
    client.pipe(server).pipe(client);
    for (const end of [client, server]) {
      end.on("error", () => {
        client.destroy();
        server.destroy();
      });
    }
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  return (proxy.address() as AddressInfo).port;
}

/** @param trusted the file of certificates that nginx trusts */
function start(controlUrl: string, trusted: string): Promise<LoneGateway> {
  return LoneGateway.start({
    policies: [],
    env: { SLUICE_CONTROL_URL: controlUrl, SLUICE_GATEWAY_TOKEN: gatewayToken, SLUICE_GATEWAY_ID: "encrypted" },
    edit: (config) => config.replace(/lua_ssl_trusted_certificate .*;/, `lua_ssl_trusted_certificate ${trusted};`),
  });
}

async function isConnected(): Promise<boolean> {
  return JSON.parse((await ask(`${gateway.privateUrl}/sluice/healthz`)).body).connected;
}

it("a policy is pushed by https to a gateway that knows its control plane as localhost", async () => {
  const port = await encrypt("localhost");
  gateway = await start(`https://localhost:${port}`, authority);
  await until("the gateway is connected", isConnected);
  await system.put({
    name: "by-https",
    match: { paths: ["/by-https"] },
    limits: [{ algorithm: "fixed-window", quota: 2, window: "366d" }],
  });
  const statuses = [];
  for (let i = 0; i < 3; i++) statuses.push((await ask(`${gateway.url}/by-https`)).status);
  // The upstream of this test answers 404.
  expect(statuses).toEqual([404, 404, 429]);
  expect(seen.names).toEqual(["localhost"]);
  expect(gateway.log).not.toMatch(/sluice: push/);
});

it("sends nothing to a control plane whose certificate is not trusted", async () => {
  const port = await encrypt("localhost");
  gateway = await start(`https://localhost:${port}`, "/etc/ssl/certs/ca-certificates.crt");
  await until("it is logged", () => /cannot reach the control plane at wss:\/\/localhost:/.test(gateway.log));
  expect(await isConnected()).toBe(false);
  expect(seen.bytes).toBe(0);
});

it.each([
  ["another name", "localhost", authority],
  ["the address and no name", "address", join(tls, "address.pem")],
] as const)(
  "says that a name is needed if the URL has an address and the certificate %s",
  async (_, certificate, trusted) => {
    const port = await encrypt(certificate);
    gateway = await start(`https://127.0.0.1:${port}`, trusted);
    const expected =
      /cannot reach the control plane at wss:\/\/127\.0\.0\.1:.* nginx does not compare IP addresses with a certificate: .*SLUICE_CONTROL_URL/;
    await until("it is logged", () => /cannot reach/.test(gateway.log));
    expect(gateway.log).toMatch(expected);
    expect(await isConnected()).toBe(false);
    expect(seen.bytes).toBe(0);
  },
);
