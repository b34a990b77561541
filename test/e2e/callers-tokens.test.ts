// A caller's token works at every gateway once the answer with it has arrived, and at none once its deletion is answered.

import { afterAll, beforeAll, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { type Gateway, System } from "../fixtures/servers/system.ts";

let system: System;
beforeAll(async () => {
  system = await System.start({ gateways: 2 });
  await system.untilConnected();
});
afterAll(() => system?.stop());

async function statusAt({ privateUrl }: Gateway, token: string): Promise<number> {
  const body = JSON.stringify({ checks: [{ policy: "none", key: [] }] });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return (await ask(`${privateUrl}/sluice/v1/check`, { method: "POST", headers, body })).status;
}

it("accepts a caller's token at every gateway as soon as it is made, and at none once it is deleted", async () => {
  for (let i = 0; i < 20; i++) {
    const made = await system.api("POST", "/tokens", { name: "sms service", app: "default", role: "caller" });
    const { id, token } = JSON.parse(made.body);
    // The token is known and the policy is not.
    for (const gateway of system.gateways) expect(await statusAt(gateway, token)).toBe(404);
    await system.api("DELETE", `/tokens/${id}`);
    for (const gateway of system.gateways) expect(await statusAt(gateway, token)).toBe(401);
  }
});
