// A header that one app's policy sets on requests for the service does not change what other policies count by.

import { expect, it, onTestFinished } from "vitest";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const quota = (units: number) => [{ algorithm: "fixed-window", quota: units, window: "366d" }];

it("an app's mark changes no key in another app's policy: it charges nobody else and hides nobody", async () => {
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
