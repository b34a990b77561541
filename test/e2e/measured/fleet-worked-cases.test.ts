// Plays the worked cases that are about a fleet, with two and with four gateways, by the machine's own clock.
// `npm run accuracy` measures how much more is admitted or left unused in a minute at three times the limit, and plays case 2
// at its full length. `npm run bench:check-api` measures how many decisions a second case 9 makes.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { check } from "../../fixtures/clients/check-api-client.ts";
import { Load } from "../../fixtures/clients/load.ts";
import { playVendor, Vendor, vendorPolicies } from "../../fixtures/documents/sms-vendor.ts";
import { type Admission, mostAtOnce } from "../../fixtures/measures/bound.ts";
import { System } from "../../fixtures/servers/system.ts";
import { until } from "../../fixtures/until.ts";

const admittedOf = (load: Load): Admission[] => load.served.filter(({ status }) => status === 200);

let vendor: Vendor;
let system: System;
beforeAll(async () => {
  vendor = await Vendor.start();
  system = await System.start({ gateways: 4, redis: true, env: { SLUICE_UPSTREAM: vendor.url } });
});
afterAll(async () => {
  await system?.stop();
  vendor?.stop();
});

/** So many of the gateways: the others get no requests. */
const gatewaysOf = (count: number) => system.gateways.slice(0, count);

// These cases take their time and little of the machine, so they run at once.
describe.concurrent("a fleet", () => {
  it.each([2, 4])(
    "case 1: of %i gateways admits 1 request/s for userA_APIX together, not 1/s each",
    async (gateways) => {
      const name = `api-x-${gateways}`;
      await system.put({
        name,
        scope: "cluster",
        match: { paths: [`/${name}`] },
        key: ["header:x-key"],
        limits: [{ algorithm: "token-bucket", quota: 1, window: "1s" }],
      });
      const load = new Load(
        gatewaysOf(gateways).map(({ url }) => `${url}/${name}`),
        25 * gateways,
        ["userA_APIX"],
      );
      load.start();
      await until("five were admitted", () => admittedOf(load).length >= 5);
      await load.stop();
      expect(new Set(load.served.map(({ status }) => status))).toEqual(new Set([200, 429]));
      expect(mostAtOnce(admittedOf(load), 1)).toBeLessThanOrEqual(1);
      const [first, fifth] = [load.served[0], admittedOf(load)[4]] as [Admission, Admission];
      // Five are admitted: the burst of one, and one a second after it.
      expect(fifth.answeredAtMs - first.sentAtMs).toBeLessThan(5000);
    },
  );

  // One fleet after the other: each keeps the machine busy.
  it("case 2: of two and of four gateways lets an SMS vendor have no more than 400 a second of 800 and of 1,200, and loses none", async () => {
    for (const gateways of [2, 4]) {
      const fleet = { put: system.put.bind(system), gateways: gatewaysOf(gateways), redis: system.redis };
      const policies = vendorPolicies.map((policy) => ({ ...policy, name: `${policy.name}-${gateways}` }));
      for (const [{ name }, facts] of await playVendor(fleet, vendor, policies, 2, 80)) {
        expect(
          facts.filter(({ ok }) => !ok),
          name,
        ).toEqual([]);
      }
    }
  });
});

describe("case 9: callers of the check API in scope cluster,", () => {
  const quota = 500;
  let caller: { app: string; token: string };
  beforeAll(async () => {
    // The token is made before the policies: a gateway that has these has it too.
    const answer = await system.api("POST", "/tokens", { name: "callers", app: "default", role: "caller" });
    caller = { app: "default", token: JSON.parse(answer.body).token };
    for (const consistency of ["exact", "leased"]) {
      await system.put({
        name: `asked-${consistency}`,
        scope: "cluster",
        consistency,
        match: { paths: ["/elsewhere"] },
        key: ["header:x-key"],
        limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
      });
    }
  });

  it.each([1, 10, 100].flatMap((callers) => [2, 4].map((gateways) => [callers, gateways] as const)))(
    "%i at once at %i gateways, are allowed the whole quota and nothing beyond it",
    async (callers, gateways) => {
      const play = async (consistency: string) => {
        let left = quota + 200;
        let allowed = 0;
        const ask = async (at: number) => {
          // Each caller asks one request after the other, of each gateway in turn.
          for (let turn = at; left > 0; turn++) {
            left -= 1;
            const { privateUrl } = system.gateways[turn % gateways] as System["gateway"];
            const checks = [{ policy: `asked-${consistency}`, key: [`${callers} callers of ${gateways}`] }];
            if ((await check(privateUrl, caller, checks)).allowed) allowed += 1;
          }
        };
        await Promise.all(Array.from({ length: callers }, (_, at) => ask(at)));
        return allowed;
      };
      const [exact, leased] = await Promise.all([play("exact"), play("leased")]);
      expect(exact).toBe(quota);
      expect(leased).toBeLessThanOrEqual(quota);
      expect(leased).toBeGreaterThan(0.9 * quota);
    },
  );
});
