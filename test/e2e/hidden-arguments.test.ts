// A client writes "#" into the target of a request: nginx's arguments end there, and nginx passes the whole target on to a service that
// reads further arguments behind it.

import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import Fastify from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const quota = 5;
const attempts = 20;
const counting = (name: string, key: string) => ({
  name,
  match: { paths: [`/${name}`] },
  key: [key],
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});

/** Of two values, it takes the last. */
const service = Fastify();
service.all<{ Querystring: Record<string, string | string[]> }>("/*", async ({ query }) => ({
  account: [query["account"] ?? ""].flat().at(-1),
}));
let gateway: LoneGateway;
beforeAll(async () => {
  const upstream = await service.listen({ port: 0, host: "127.0.0.1" });
  gateway = await LoneGateway.start({
    policies: [counting("query", "query:account"), counting("form", "form:account")],
    env: { SLUICE_UPSTREAM: upstream },
  });
});
afterAll(async () => {
  await gateway?.stop();
  await service.close();
});

/** By hand: clients of HTTP send no "#". */
async function accountOf(port: number, target: string): Promise<string | undefined> {
  const socket = connect(port, "127.0.0.1");
  socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  return /\{"account":"(.*)"\}/.exec(await text(socket))?.[1];
}

describe.each(["query", "form"])("Fastify behind nginx and the key %s:account", (path) => {
  it.each([
    ["behind #", () => `/${path}?x=1#&account=victim`],
    ["behind # and a decoy", (i: number) => `/${path}?account=decoy${i}#&account=victim`],
  ])("is not asked for a victim %s", async (_, targetOf) => {
    const { port } = service.server.address() as AddressInfo;
    expect(await accountOf(port, targetOf(0))).toBe("victim");
    let got = 0;
    for (let i = 0; i < attempts; i++) {
      if ((await accountOf(Number(new URL(gateway.url).port), targetOf(i))) === "victim") got += 1;
    }
    expect(got).toBe(0);
  });

  it("is asked for an account as often as the quota says", async () => {
    let got = 0;
    for (let i = 0; i < attempts; i++) {
      const account = await accountOf(Number(new URL(gateway.url).port), `/${path}?account=ann`);
      if (account === "ann") got += 1;
    }
    expect(got).toBe(quota);
  });
});
