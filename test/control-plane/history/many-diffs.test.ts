// Many diffs at once: each keeps its documents in memory, and computes for many turns.

import { once } from "node:events";
import { connect } from "node:net";
import { beforeAll, expect, it } from "vitest";
import { type Running, sharedControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { until } from "../../fixtures/until.ts";

const running = sharedControlPlane();

interface Viewer {
  readonly token: string;
  readonly path: string;
}

/** Makes an app whose policies, of 0.25 MB, were all changed. @returns who may see how */
async function makeViewer({ call }: Running, app: string): Promise<Viewer> {
  await call("PUT", `/apps/${app}`, { body: { realm: { hosts: [`${app}.test`] } } });
  const limitsOf = (quota: number) => [{ name: "l", algorithm: "token-bucket", quota, window: "1s" }];
  const policiesOf = (k: number) =>
    Array.from({ length: 10 }, (_, i) => {
      const overrides = Array.from({ length: 250 }, (_, n) => ({ key: [`k${n}`], limits: limitsOf(n * k + 1) }));
      const match = { hosts: [`${app}.test`] };
      return JSON.stringify({ name: `p${i}`, match, key: ["header:x-a"], limits: limitsOf(k), overrides });
    }).join("\n");
  const put = async (k: number) =>
    (await call("PUT", `/apps/${app}/policies`, { text: policiesOf(k), type: "application/jsonl" })).body.revision;
  const [from, to] = [await put(1), await put(2)];
  const { body } = await call("POST", "/tokens", { body: { name: `${app}-viewer`, app, role: "viewer" } });
  return { token: body.token, path: `/revisions/${from}/diff/${to}?app=${app}` };
}

let ann: Viewer;
let bob: Viewer;
beforeAll(async () => {
  ann = await makeViewer(running(), "ann");
  bob = await makeViewer(running(), "bob");
});

const ask = ({ path, token }: Viewer) => running().call("GET", path, { token });

it("of one viewer wait for each other, and let that of another app's viewer begin at once", async () => {
  const codes: string[] = [];
  const flood = Array.from({ length: 20 }, async () => {
    const { status, headers, body } = await ask(ann);
    codes.push(status === 200 ? "shown" : `${status} ${body.code}, ${headers.get("retry-after")}`);
  });
  await until("one is answered", () => codes.length > 0);
  const before = codes.length;
  const { status, body } = await ask(bob);
  const meanwhile = codes.length - before;
  await Promise.all(flood);
  expect([status, body.changes.length]).toEqual([200, 10]);
  // Eight go on at once, and one of them gave way.
  expect(meanwhile).toBeLessThan(12);
  expect(codes.filter((code) => code === "503 reads-busy, 1")).toHaveLength(1);
  expect(codes.filter((code) => code === "shown")).toHaveLength(19);
});

it("end with the clients that asked for them", async () => {
  const secondsOf = async (viewer: Viewer) => {
    const before = process.cpuUsage();
    expect((await ask(viewer)).status).toBe(200);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1e6;
  };
  const alone = Math.min(await secondsOf(ann), await secondsOf(ann));
  const { app, url } = running();
  let came = 0;
  const count = () => {
    came += 1;
  };
  app.server.prependListener("request", count);
  const { hostname, port } = new URL(url);
  const head = `GET /api/v1${bob.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${bob.token}\r\n\r\n`;
  const sockets = Array.from({ length: 40 }, () => connect(Number(port), hostname));
  for (const socket of sockets) socket.write(head);
  await until("all have come", () => came === sockets.length);
  app.server.off("request", count);
  await Promise.all(sockets.map((socket) => once(socket.destroy(), "close")));
  // It goes on in turns with all of these that go on.
  const afterThem = await secondsOf(ann);
  console.log(`one diff: ${alone} s of the processor; after 40 that nobody waits for: ${afterThem} s`);
  expect(afterThem).toBeLessThan(8 * alone);
});
