// A gateway warns of misspelt variables, of parts that nginx.conf lacks, and that it has counted no request. The log has the first two; healthz
// and the control plane show all of them.

import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway, type LoneGatewayOptions } from "../fixtures/servers/lone-gateway.ts";
import { gatewayToken, System } from "../fixtures/servers/system.ts";
import { untilPasses } from "../fixtures/until.ts";

let system: System;
beforeAll(async () => {
  system = await System.start({ gateways: 0 });
});
afterAll(() => system?.stop());

async function start(options: LoneGatewayOptions): Promise<LoneGateway> {
  const gateway = await LoneGateway.start(options);
  onTestFinished(() => gateway.stop());
  return gateway;
}

async function warningsOf(gateway: LoneGateway): Promise<string[] | undefined> {
  return JSON.parse((await ask(`${gateway.privateUrl}/sluice/healthz`)).body).warnings;
}

const idle =
  "no policy has counted a request since nginx started: if it should have, the locations do not call sluice.access()";
const limits = [{ name: "daily", algorithm: "fixed-window", quota: 10, window: "1d" }];
const books = { name: "books", match: { paths: ["/books"] }, limits };

describe("a variable that begins with SLUICE_ and that no setting has", () => {
  const header = "SLUICE_HEADER is no setting and does nothing; the nearest that there is: SLUICE_HEADERS";
  const redis = "SLUICE_REDIS_UR is no setting and does nothing; the nearest that there is: SLUICE_REDIS_URL";
  const linesOf = ({ log }: LoneGateway) => log.split("\n").filter((line) => line.includes("is no setting"));

  it("is in the log once at each start and reload, in healthz, and in the control plane's list of gateways", async () => {
    const env = {
      SLUICE_CONTROL_URL: system.controlUrl,
      SLUICE_GATEWAY_TOKEN: gatewayToken,
      SLUICE_GATEWAY_ID: "misspelt",
      SLUICE_HEADER: "ietf",
      SLUICE_REDIS_UR: "redis://user:secret@127.0.0.1",
      SLUICE_OLD: "",
    };
    // nginx names none of them in nginx.conf.
    const gateway = await start({ env, workers: 2 });
    expect(linesOf(gateway).map((line) => line.replace(/.*?(\[warn\]).*sluice: (.*)/, "$1 $2"))).toEqual([
      `[warn] ${header}`,
      `[warn] ${redis}`,
    ]);
    expect(await warningsOf(gateway)).toEqual([header, redis]);
    await untilPasses(async () => {
      const { gateways } = JSON.parse((await system.api("GET", "/gateways")).body);
      expect(gateways).toMatchObject([{ id: "misspelt", alarm: null, warnings: [header, redis] }]);
    });
    process.kill(gateway.pid, "SIGHUP");
    await untilPasses(() => expect(linesOf(gateway)).toHaveLength(4));
    expect(await warningsOf(gateway)).toEqual([header, redis]);
    expect(gateway.log).not.toContain("secret");
  });

  it("is one of ten at most, of which none is long", async () => {
    const env = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`SLUICE_${"X".repeat(300)}_${i}`, "1"]));
    const warnings = (await warningsOf(await start({ env }))) ?? [];
    expect(warnings).toHaveLength(10);
    for (const warning of warnings) expect(warning.length).toBeLessThanOrEqual(200);
  });
});

describe("that no policy has counted a request", () => {
  it("is in healthz from the start until one does, and not where there are no policies", async () => {
    const gateway = await start({ policies: [books] });
    expect(await warningsOf(gateway)).toEqual([idle]);
    await ask(`${gateway.url}/films`);
    expect(await warningsOf(gateway)).toEqual([idle]);
    await ask(`${gateway.url}/books`);
    await untilPasses(async () => expect(await warningsOf(gateway)).toBeUndefined());
    expect(gateway.log).not.toContain(idle);
    expect(await warningsOf(await start({ policies: [] }))).toBeUndefined();
  });

  it("is in healthz where no location calls sluice.access()", async () => {
    const edit = (config: string) => config.replace("sluice.access()", "");
    const gateway = await start({ policies: [books], edit });
    for (let i = 0; i < 20; i++) expect((await ask(`${gateway.url}/books`)).status).toBe(404);
    expect(await warningsOf(gateway)).toEqual([idle]);
  });
});

describe("a part that nginx.conf lacks", () => {
  it("is in healthz once a request has needed it: the dict of consumers, and Redis", async () => {
    const byConsumer = {
      ...books,
      key: ["header:x-user"],
      limits: undefined,
      plans: { free: limits },
      planBy: "consumer",
    };
    const policies = [
      { ...byConsumer, defaultPlan: "free" },
      { ...books, name: "fleet", scope: "cluster" },
    ];
    const edit = (config: string) => config.replace(/lua_shared_dict sluice_consumers.*/, "");
    const gateway = await start({ policies, edit });
    expect(await warningsOf(gateway)).toEqual([idle]);
    await ask(`${gateway.url}/books`, { headers: { "x-user": "ann" } });
    await untilPasses(async () =>
      expect(await warningsOf(gateway)).toEqual([
        "a policy of scope cluster applies to a request, but SLUICE_REDIS_URL is not set here",
        "a policy has planBy: consumer, and nginx.conf declares no shared dict for consumers",
      ]),
    );
    const [line] = gateway.log.split("\n").filter((one) => one.includes("declares no shared dict"));
    expect(line).toContain("[error]");
    expect(line).toContain('add "lua_shared_dict sluice_consumers 160m;" to its http block. Without it, all requests');
  });
});
