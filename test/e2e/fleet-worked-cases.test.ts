// Plays the worked cases that are about a fleet, with two and with four gateways, by the machine's own clock.
// `npm run accuracy` measures how much more is admitted or left unused in a minute at three times the limit, and plays case 2
// at its full length. `npm run bench:check-api` measures how many decisions a second case 9 makes.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Admission, mostAtOnce } from "../fixtures/bound.ts";
import { check } from "../fixtures/check-api-client.ts";
import { Load } from "../fixtures/load.ts";
import { playVendor, Vendor, vendorPolicies } from "../fixtures/sms-vendor.ts";
import { System, until } from "../fixtures/system.ts";

const admittedOf = (load: Load): Admission[] => load.served.filter(({ status }) => status === 200);

describe.each([2, 4])("a fleet of %i gateways", (gateways) => {
  let vendor: Vendor;
  let system: System;
  beforeAll(async () => {
    vendor = await Vendor.start();
    system = await System.start({ gateways, redis: true, env: { SLUICE_UPSTREAM: vendor.url } });
  });
  afterAll(async () => {
    await system?.stop();
    vendor?.stop();
  });

  // The first two cases take their time and little of the machine, so they run at once.
  it.concurrent("case 1: admits 1 request/s for userA_APIX together, not 1/s each", async () => {
    await system.put({
      name: "api-x",
      scope: "cluster",
      match: { paths: ["/x"] },
      key: ["header:x-key"],
      limits: [{ algorithm: "token-bucket", quota: 1, window: "1s" }],
    });
    const load = new Load(
      system.gateways.map(({ url }) => `${url}/x`),
      50 * gateways,
      ["userA_APIX"],
    );
    load.start();
    await until("five were admitted", 20_000, () => admittedOf(load).length >= 5);
    await load.stop();
    expect(new Set(load.served.map(({ status }) => status))).toEqual(new Set([200, 429]));
    expect(mostAtOnce(admittedOf(load), 1)).toBeLessThanOrEqual(1);
    const [first, fifth] = [load.served[0], admittedOf(load)[4]] as [Admission, Admission];
    // Five are admitted: the burst of one, and one a second after it.
    expect(fifth.answeredAtMs - first.sentAtMs).toBeLessThan(5000);
  });

  it.concurrent("case 2: lets an SMS vendor have no more than 400 a second of 800 and of 1,200, and loses none", async () => {
    for (const [{ name }, facts] of await playVendor(system, vendor, vendorPolicies, 3, 80)) {
      expect(
        facts.filter(({ ok }) => !ok),
        name,
      ).toEqual([]);
    }
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

    it.each([1, 10, 100])("%i at once, are allowed the whole quota and nothing beyond it", async (callers) => {
      for (const consistency of ["exact", "leased"]) {
        let left = quota + 200;
        let allowed = 0;
        const ask = async (at: number) => {
          // Each caller asks one request after the other, of each gateway in turn.
          for (let turn = at; left > 0; turn++) {
            left -= 1;
            const { privateUrl } = system.gateways[turn % gateways] as System["gateway"];
            const checks = [{ policy: `asked-${consistency}`, key: [`${callers} callers`] }];
            if ((await check(privateUrl, caller, checks)).allowed) allowed += 1;
          }
        };
        await Promise.all(Array.from({ length: callers }, (_, at) => ask(at)));
        expect(allowed, consistency).toBeLessThanOrEqual(quota);
        if (consistency === "exact") expect(allowed).toBe(quota);
        else expect(allowed).toBeGreaterThan(0.9 * quota);
      }
    });
  });
});
