// A small version of worked case 11: busy processors make Redis' replies late, and an exact limit stays exact.
// `npm run exactness` runs it twenty times, with more gateways, with buckets and with leases.

import { expect, it } from "vitest";
import { playCrowds } from "../../exactness/crowds.ts";
import { type CrowdScenario, crowdScenarios } from "../../exactness/scenarios.ts";

it("case 11: admits exactly 100 of 500 at once by two gateways that were just started, while all cores are busy", async () => {
  const scenario = crowdScenarios.find(({ name }) => name === "busy-500") as CrowdScenario;
  const { runs, facts } = await playCrowds(scenario, 2);
  expect(runs).toHaveLength(2);
  expect(facts.filter(({ ok }) => !ok)).toEqual([]);
});
