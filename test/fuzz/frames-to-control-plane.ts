// Sends push frames to the control plane with a gateway's token. Whatever they contain, the other gateways stay connected, no
// other history is changed, and the API answers.

import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { openPushSocket } from "../fixtures/clients/simulated-gateway.ts";
import { gatewayToken } from "../fixtures/servers/system.ts";
import { roomMs, until } from "../fixtures/until.ts";
import type { ControlPlaneWatch } from "./control-plane-watch.ts";
import { conversations, messageText, type Step } from "./gateway-messages.ts";
import { readable } from "./hostile.ts";
import { Fault, type Fuzzer, type Surroundings, type Target } from "./target.ts";

const betweenStepsMs = 3;
const largeLetter = "x";

export const framesToControlPlane: Target = { name: "frames-to-control-plane", worker: "control plane", start };

async function start(surroundings: Surroundings): Promise<Fuzzer<unknown>> {
  const watch = await surroundings.controlPlane();
  const fuzzer: Fuzzer<readonly Step[]> = {
    inputs: conversations,
    async play(input) {
      const before = await newestRevision(watch);
      await converse(watch, input);
      await watch.lookAtFleet();
      const after = await newestRevision(watch);
      if (after !== before) throw new Fault(`a gateway's words made revision ${after} of revision ${before}`);
      await watch.lookAtStalls(() => converse(watch, input), show(input));
    },
    show,
    recover: () => watch.untilWell(),
  };
  return fuzzer as Fuzzer<unknown>;
}

async function newestRevision(watch: ControlPlaneWatch): Promise<number> {
  const { revisions } = (await watch.admin("GET", "/revisions?limit=1")) as { revisions: { n: number }[] };
  return revisions[0]?.n ?? 0;
}

async function converse(watch: ControlPlaneWatch, input: readonly Step[]): Promise<void> {
  const options = { handshakeTimeout: roomMs, perMessageDeflate: false };
  const socket = await openPushSocket(watch.system.controlUrl, gatewayToken, options);
  const reported = { epoch: "", revision: 0 };
  socket.on("message", (data) => {
    const message = JSON.parse(String(data));
    if (message.type === "snapshot") Object.assign(reported, { epoch: message.epoch, revision: message.revision });
  });
  try {
    for (const step of input) {
      if (socket.readyState !== WebSocket.OPEN) break;
      take(socket, step, reported);
      // The pause lets the control plane answer.
      await sleep(betweenStepsMs);
    }
  } finally {
    socket.terminate();
  }
  await until("the socket is closed", () => socket.readyState === WebSocket.CLOSED);
}

function take(socket: WebSocket, step: Step, reported: { epoch: string; revision: number }): void {
  switch (step.does) {
    case "message":
      socket.send(messageText(step, reported));
      return;
    case "text":
      socket.send(step.text.slice(0, step.cut));
      return;
    case "binary":
      socket.send(step.bytes, { binary: true });
      return;
    case "fragments": {
      const middle = Math.floor(step.text.length / 2);
      socket.send(step.text.slice(0, middle), { fin: false });
      socket.send(step.text.slice(middle), { fin: step.ends });
      return;
    }
    case "large":
      socket.send(largeLetter.repeat(step.bytes));
      return;
    case "ping":
      socket.ping(step.bytes);
      return;
    case "pong":
      socket.pong(step.bytes);
      return;
    case "close":
      socket.close(step.code, step.reason);
      return;
    case "raw":
      (socket as unknown as { _socket: Socket })._socket.write(step.bytes);
      return;
    case "hang up":
      socket.terminate();
      return;
  }
}

function show(input: readonly Step[]): string {
  return input.map(readable).join("\n");
}
