// What real gateways report of their traffic, as the control plane shows it. `npm run top-keys` sends a million requests.

import { expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";
import { measureTopKeys } from "../top-keys/measure.ts";

it("finds the most refused keys of two gateways, as often as it says", async () => {
  const { facts, shown } = await measureTopKeys({ requests: 20_000, keys: 5_000, gateways: 2, workers: 2 });
  expect(facts.filter(({ ok }) => !ok)).toEqual([]);
  expect(shown).toHaveLength(10);
});

it("shows each decision of a gateway once, also those that it made while the control plane was away", async () => {
  const system = await System.start({ workers: 2 });
  try {
    const limit = { algorithm: "fixed-window", quota: 4, window: "366d" };
    await system.put({ name: "books", match: { paths: ["/hello"] }, limits: [limit] });
    const shown = async () => {
      const { body } = await system.api("GET", "/apps/default/traffic?policy=books&since=1h");
      let [admitted, refused] = [0, 0];
      for (const point of JSON.parse(body).points) {
        admitted += point.admitted;
        refused += point.refused;
      }
      return `${admitted} ${refused}`;
    };
    for (let i = 0; i < 6; i++) await ask(`${system.gateway.url}/hello`);
    await until("they are shown", async () => (await shown()) === "4 2");
    await system.stopControlPlane();
    for (let i = 0; i < 5; i++) await ask(`${system.gateway.url}/hello`);
    await system.startControlPlane();
    await system.untilConnected();
    await until("those meanwhile are shown", async () => (await shown()) === "0 5");
  } finally {
    await system.stop();
  }
});
