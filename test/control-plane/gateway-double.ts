// Plays the gateway's side of the push socket, and keeps received messages in order.

import type { ControlMessage, GatewayMessage, Snapshot } from "@sluice/limiter/protocol/push-messages.ts";
import { type ClientOptions, WebSocket } from "ws";
import { onFinished } from "../fixtures/side-by-side.ts";
import { gatewayToken, type Running } from "./control-plane-under-test.ts";

export interface GatewayDouble {
  socket: WebSocket;
  received: ControlMessage[];
  closed: Promise<number>;
  say(message: GatewayMessage | string): void;
  /** @returns the next message of the type that no call has taken yet */
  next<Type extends ControlMessage["type"]>(type: Type): Promise<Extract<ControlMessage, { type: Type }>>;
  apply(snapshot: Snapshot): void;
}

/** Connects and says hello, as a gateway without a snapshot unless a position is given. */
export async function connectGateway(
  { url }: Running,
  id: string,
  position: { epoch: string; revision: number; proof?: string | undefined } = { epoch: "", revision: 0 },
  options: ClientOptions = {},
): Promise<GatewayDouble> {
  const double = await openSocket(url, options);
  double.say({ type: "hello", gateway: id, version: "0.1.0", workers: 2, ...position });
  return double;
}

export async function openSocket(url: string, options: ClientOptions = {}): Promise<GatewayDouble> {
  const socket = new WebSocket(`${url.replace("http", "ws")}/api/v1/push`, {
    headers: { authorization: `Bearer ${gatewayToken}` },
    ...options,
  });
  onFinished(() => socket.terminate());
  const received: ControlMessage[] = [];
  const untaken: ControlMessage[] = [];
  const takers: { type: string; take(message: ControlMessage): void }[] = [];
  socket.on("message", (data) => {
    const message = JSON.parse(data.toString()) as ControlMessage;
    received.push(message);
    const taker = takers.findIndex(({ type }) => type === message.type);
    if (taker < 0) untaken.push(message);
    else takers.splice(taker, 1)[0]?.take(message);
  });
  const closed = new Promise<number>((resolve) => socket.on("close", resolve));
  await new Promise<void>((resolve, reject) => {
    socket.once("open", resolve);
    socket.once("error", reject);
  });
  socket.on("error", () => undefined);

  const say = (message: GatewayMessage | string) =>
    socket.send(typeof message === "string" ? message : JSON.stringify(message));
  return {
    socket,
    received,
    closed,
    say,
    next<Type extends ControlMessage["type"]>(type: Type) {
      return new Promise<Extract<ControlMessage, { type: Type }>>((resolve) => {
        const take = (message: ControlMessage) => resolve(message as Extract<ControlMessage, { type: Type }>);
        const waiting = untaken.findIndex((message) => message.type === type);
        if (waiting < 0) takers.push({ type, take });
        else take(untaken.splice(waiting, 1)[0] as ControlMessage);
      });
    },
    apply: ({ epoch, revision }) => say({ type: "applied", epoch, revision }),
  };
}
