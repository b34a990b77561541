// Many gateways at one control plane, whatever their protocol: after edits, every one of them has exactly what the database has.

import { expect, it } from "vitest";
import { SimulatedGateway } from "../../fixtures/clients/simulated-gateway.ts";
import {
  gatewayToken,
  perSecond,
  type Running,
  sharedControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";

const running = sharedControlPlane();

async function fleet({ url }: Running, count: number): Promise<SimulatedGateway[]> {
  const gateways = Array.from({ length: count }, (_, i) => {
    const protocol = i % 2 === 0 ? 1 : 2;
    return new SimulatedGateway({ url, token: gatewayToken, id: `g${i}`, protocol, keepsState: true });
  });
  onFinished(() => {
    for (const gateway of gateways) gateway.hangUp();
  });
  await Promise.all(gateways.map((gateway) => gateway.connect()));
  return gateways;
}

async function put(name: string, quota: number): Promise<number> {
  const { status, body } = await running().call("PUT", `/apps/default/policies/${name}`, { body: perSecond(quota) });
  expect([200, 201]).toContain(status);
  return body.revision;
}

it("edits reach every gateway, and a gateway that comes again gets only what it has missed", async () => {
  for (let i = 0; i < 20; i++) await put(`p${i}`, 1);
  const gateways = await fleet(running(), 40);
  // Both know deltas.
  const [, late, , complete] = gateways as [SimulatedGateway, SimulatedGateway, SimulatedGateway, SimulatedGateway];
  await untilPasses(() => expect(gateways.every(({ entries }) => entries.size === 20)).toBe(true));
  late.hangUp();
  let revision = 0;
  for (let i = 0; i < 30; i++) revision = await put(`p${i % 7}`, 100 + i);
  const removed = await running().call("DELETE", "/apps/default/policies/p19");
  revision = removed.body.revision;
  await late.connect();
  const have = (wanted: number) => gateways.every(({ held }) => held.revision === wanted);
  await untilPasses(() => expect(have(revision)).toBe(true));

  const listed = await running().call("GET", "/apps/default/policies?limit=100");
  const expected = new Map<string, unknown>(
    listed.body.policies.map(({ name, document }: { name: string; document: unknown }) => [
      `policy default ${name}`,
      { app: "default", document },
    ]),
  );
  expect(expected.size).toBe(19);
  for (const gateway of gateways) {
    const entries = new Map([...gateway.entries].map(([key, entry]) => [key, JSON.parse(entry)]));
    expect(entries).toEqual(expected);
    expect([gateway.counts.misfits, gateway.counts.cuts]).toEqual([0, 0]);
  }

  // Who has everything is sent nothing but the next edit.
  const received = () => complete.counts.snapshots + complete.counts.deltas;
  const before = received();
  complete.hangUp();
  await complete.connect();
  await put("p1", 7_000);
  await untilPasses(() => expect(have(revision + 1)).toBe(true));
  expect(received()).toBe(before + 1);
});
