// The gateway with this nginx.conf takes the largest snapshot that the control plane admits, again and again, in many small
// policies and in few large ones. Its shared memory must hold two of them.

import { afterAll, beforeAll, expect, it } from "vitest";
import { policyBytesInAll } from "../../../control-plane/src/bounds/bounds.ts";
import { readConfiguration } from "../../../control-plane/src/configuration.ts";
import { pushedSnapshot } from "../../fixtures/documents/pushed-snapshot.ts";
import { freePorts } from "../../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { PushServer } from "../../fixtures/servers/push-server.ts";
import { until } from "../../fixtures/until.ts";

const { totalBounds } = readConfiguration({});

const revisions = [2, 3, 4, 5];
/** Of each revision. Small policies follow large ones, and large ones small ones. */
let frames: readonly Buffer[];
let server: PushServer;
let gateway: LoneGateway;

beforeAll(async () => {
  // Before the gateway starts, whose pings must be answered.
  frames = await Promise.all(revisions.map((revision) => largest(revision, revision % 2 === 0 ? 1 : 250)));
  const [port = 0] = await freePorts(1);
  server = new PushServer(port);
  gateway = await LoneGateway.start({
    policies: [],
    env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}`, SLUICE_GATEWAY_TOKEN: "t", SLUICE_GATEWAY_ID: "g" },
  });
  await until("the gateway is connected", () => server.socket !== undefined);
});
afterAll(async () => {
  await gateway?.stop();
  await server?.stop();
});

/**
 * The texts have many lengths: LuaJIT's hash looks at the length and at some bytes of a long text, so texts of one length
 * that differ elsewhere are found one by one.
 */
const filling = (i: number) => "x".repeat(170 + (i % 64));

const nameOf = (nth: number) => `p${`${nth}`.padStart(5, "0")}`;

/** Makes a snapshot with as many policies of so many paths as there may be, and as many bans. */
function largest(revision: number, pathsOfEach: number) {
  const document = (nth: number) => {
    const name = nameOf(nth);
    return JSON.stringify({
      name,
      match: { paths: Array.from({ length: pathsOfEach }, (_, i) => `/${name}/${i}/${filling(nth + i)}`) },
      key: ["header:x-user"],
      limits: [{ algorithm: "fixed-window", quota: revision, window: "1d" }],
    });
  };
  const bytes = document(63).length + 100;
  const count = Math.min(totalBounds.policies, Math.floor(policyBytesInAll(totalBounds) / bytes));
  const policies: { app: string; name: string; document: string }[] = [];
  for (let i = 0; i < count; i++) policies.push({ app: "default", name: nameOf(i), document: document(i) });
  const ban = (i: number) => ({
    id: `${i}`.padStart(25, "b"),
    app: "default",
    policy: "p00000",
    key: [`${i}${filling(i)}`],
    untilSeconds: 4_000_000_000,
  });
  const bans = Array.from({ length: 11_000 }, (_, i) => ban(i));
  return pushedSnapshot({ epoch: "e", revision, policies, bans });
}

it("takes the largest possible snapshots, one after another", { timeout: 360_000 }, async () => {
  for (const [i, revision] of revisions.entries()) {
    const bytes = frames[i] as Buffer;
    for (let from = 0; from < bytes.length; from += 65_536) {
      server.socket?.send(bytes.subarray(from, from + 65_536), { binary: false, fin: from + 65_536 >= bytes.length });
    }
    await until("the snapshot has been sent", () => server.socket?.bufferedAmount === 0);
    await until(`revision ${revision} is answered`, () =>
      server.received.some((message) => message.revision === revision),
    );
    expect(server.received.at(-1)).toEqual({ type: "applied", epoch: "e", revision });
  }
  const sizes = frames.map((frame) => frame.length);
  console.log(`snapshots of ${sizes.map((size) => (size / 1e6).toFixed(1)).join(", ")} MB`);
  expect(Math.max(...sizes)).toBeGreaterThan(0.9 * totalBounds.snapshotBytes);
});
