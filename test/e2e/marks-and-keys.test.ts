// What one app's policy sets on requests for the service is not what other policies count by.

import { expect, it, onTestFinished } from "vitest";
import { LoneGateway } from "../fixtures/lone-gateway.ts";

const quota = (units: number) => [{ algorithm: "fixed-window", quota: units, window: "366d" }];

it("an app's mark charges nobody else in another app's policy, nor hides who asks from it", async () => {
  const gateway = await LoneGateway.start({
    policies: [{ name: "all", key: ["header:x-user"], limits: quota(3) }],
    otherPolicies: {
      shop: [
        {
          name: "first",
          priority: 1_000_000,
          match: { paths: ["/shop/*"] },
          limits: quota(1),
          onLimit: { action: "tag", header: "x-user: victim" },
        },
      ],
    },
  });
  onTestFinished(() => gateway.stop());
  const ask = async (path: string, user: string) =>
    (await fetch(`${gateway.url}${path}`, { headers: { "x-user": user } })).status === 429;
  const ofShop: boolean[] = [];
  for (let i = 0; i < 5; i++) ofShop.push(await ask("/shop/x", "mallory"));
  expect({ ofShop, victimRefused: await ask("/elsewhere", "victim") }).toEqual({
    ofShop: [false, false, false, true, true],
    victimRefused: false,
  });
});
