import { once } from "node:events";
import { connect } from "node:net";
import { expect, it } from "vitest";
import { startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";

it("a stop does not wait for connections that browsers open in advance", async () => {
  const running = await startControlPlane();
  const socket = connect(Number(new URL(running.url).port), "127.0.0.1");
  onFinished(() => socket.destroy());
  await once(socket, "connect");
  // The control plane has accepted the connection before this one.
  expect((await running.call("GET", "/apps")).status).toBe(200);
  const closed = once(socket, "close");
  await running.stop();
  await closed;
}, 10_000);
