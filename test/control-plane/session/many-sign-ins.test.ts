// Whoever signs in all the time keeps nobody else from it: to store a session, people take turns.

import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startProcess } from "../../fixtures/servers/control-plane-process.ts";
import { send } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { serverKinds } from "../storage/database-servers.ts";

const crowdSize = 500;
/** If all took turns together, all of the crowd would be before each of the others. */
const mostBefore = crowdSize / 4;

/** @param localAddress another one for each, because addresses take turns, too @returns the status */
function signIn(url: string, token: string, localAddress: string, agent: Agent): Promise<number> {
  const text = JSON.stringify({ token });
  const headers = { "content-type": "application/json", "content-length": text.length };
  return new Promise((resolve, reject) => {
    request(`${url}/api/v1/session`, { method: "POST", localAddress, agent, headers }, (answer) => {
      answer.resume().once("end", () => resolve(answer.statusCode ?? 0));
    })
      .once("error", reject)
      .end(text);
  });
}

// In front of SQLite, the turns of addresses on the thread are enough.
describe.each(serverKinds)("on %s", (_, startServer) => {
  let server: DatabaseServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.remove());

  it("a viewer who signs in on hundreds of connections delays the sign-in of somebody else by some of theirs", async () => {
    const url = await startProcess({ SLUICE_DATABASE_URL: await server.createDatabase() });
    const tokenOf = async (app: string, role: string) =>
      (await send(url, "POST", "/tokens", { body: { name: role, app, role } })).body.token as string;
    await send(url, "PUT", "/apps/shop", { body: {} });
    const [viewer, other] = [await tokenOf("shop", "viewer"), await tokenOf("default", "viewer")];
    const [crowded, alone] = [new Agent({ keepAlive: true }), new Agent({ keepAlive: true })];
    onFinished(() => {
      crowded.destroy();
      alone.destroy();
    });
    let isOver = false;
    let signedIn = 0;
    const crowd = Array.from({ length: crowdSize }, async () => {
      while (!isOver) if ((await signIn(url, viewer, "127.0.0.2", crowded)) === 201) signedIn += 1;
    });
    while (signedIn < 2 * crowdSize) await sleep(20);
    const seen: { status: number; before: number }[] = [];
    for (let i = 0; i < 3; i++) {
      const had = signedIn;
      seen.push({ status: await signIn(url, other, "127.0.0.3", alone), before: signedIn - had });
    }
    isOver = true;
    await Promise.all(crowd);
    console.log(JSON.stringify(seen), signedIn);
    expect(seen.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(Math.max(...seen.map(({ before }) => before))).toBeLessThan(mostBefore);
  });
});
