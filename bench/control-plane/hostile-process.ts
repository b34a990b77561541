// A gateway that means harm, in a process of its own: whoever has a gateway's token, or has none, can do what it does. Its rate is
// fixed, so that it does the same beside a fast control plane and a slow one.
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { WebSocket } from "ws";
import { openPushSocket, SimulatedGateway } from "../../test/fixtures/clients/simulated-gateway.ts";

export interface HostileOrder {
  readonly url: string;
  readonly token: string;
}

const everyMs = 100;
const stormSockets = 20;
const largeBytes = 2_000_000;
const id = "hostile";

async function run(order: HostileOrder): Promise<void> {
  const acts = actsOf(order);
  for (let i = 0; ; i++) {
    const act = acts[i % acts.length] as () => Promise<void>;
    // The control plane may refuse or cut anything of this, at any time.
    act().catch(() => undefined);
    await sleep(everyMs);
  }
}

function actsOf({ url, token }: HostileOrder): (() => Promise<void>)[] {
  const gateway = (number: number, manner?: SimulatedGateway["manner"]) =>
    new SimulatedGateway({ url, token, protocol: 2, id: `${id}-${number}`, ...(manner && { manner }) });
  /** Connects with a good hello, does this, and is gone a little later. */
  const once = async (does: (one: SimulatedGateway) => void, manner?: SimulatedGateway["manner"]) => {
    const one = gateway(0, manner);
    await one.connect();
    does(one);
    await sleep(everyMs * 2);
    one.hangUp();
  };
  const before = async (does: (socket: WebSocket) => void) => {
    const socket = await openPushSocket(url, token);
    does(socket);
    await sleep(everyMs * 2);
    socket.terminate();
  };
  return [
    async () => (await openPushSocket(url, "a-token-of-nobody-0123456789")).terminate(),
    () => once((one) => one.say("}{ no JSON")),
    () => before((socket) => socket.send(Buffer.alloc(1_000, 0xff))),
    () => once((one) => one.say(JSON.stringify({ type: "status", counters: { x: "x".repeat(largeBytes) } }))),
    // A frame that breaks the framing itself, and one that announces more bytes than ever come.
    () => before((socket) => tcpOf(socket).write(Buffer.from([0xf1, 0x80, 0, 0, 0, 0]))),
    () => before((socket) => tcpOf(socket).write(Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]))),
    () => once((one) => one.say({ type: "applied", epoch: one.held.epoch, revision: 2 ** 40 })),
    () =>
      before((socket) => {
        const hello = { type: "hello", gateway: id, version: "0.1.0", workers: 1, protocol: 2, edition: "ahead" };
        socket.send(JSON.stringify({ ...hello, epoch: "elsewhere", revision: 2 ** 40, proof: "none" }));
      }),
    () => once(() => undefined, { answers: "refused" }),
    () => once(() => undefined, { answers: "resync" }),
    // Everything is fetched and thrown away, many times at once.
    async () => {
      const some = Array.from({ length: stormSockets }, (_, i) => gateway(i));
      await Promise.allSettled(some.map((one) => one.connect()));
      for (const one of some) one.hangUp();
    },
  ];
}

/** The connection below the library. */
function tcpOf(socket: WebSocket): Socket {
  return (socket as unknown as { _socket: Socket })._socket;
}

process.once("message", (order: HostileOrder) => void run(order));
process.on("disconnect", () => process.exit(0));
