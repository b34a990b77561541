// A control plane of the fuzzer's own: it says to a gateway whatever it is given to say.

import { once } from "node:events";
import type { Socket } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { until } from "../fixtures/system.ts";

export interface Heard {
  readonly type: string;
  readonly epoch?: string;
  readonly revision?: number;
  readonly id?: number;
  readonly problems?: readonly object[];
}

export class PushServer {
  readonly #server: WebSocketServer;
  #socket: WebSocket | undefined;
  /** Of all sockets, in order, but for reports of status. */
  heard: Heard[] = [];

  constructor(port: number) {
    this.#server = new WebSocketServer({ port, host: "127.0.0.1", path: "/api/v1/push", perMessageDeflate: false });
    this.#server.on("connection", (socket) => {
      this.#socket = socket;
      socket.on("error", () => undefined);
      socket.on("close", () => {
        if (this.#socket === socket) this.#socket = undefined;
      });
      socket.on("message", (data) => {
        const message = JSON.parse(String(data)) as Heard;
        if (message.type !== "status") this.heard.push(message);
      });
    });
  }

  get socket(): WebSocket | undefined {
    return this.#socket;
  }

  /** Under the library: bytes that no library would write. */
  writeRaw(bytes: Uint8Array): void {
    (this.#socket as unknown as { _socket: Socket } | undefined)?._socket.write(bytes);
  }

  /** Pushes what is good and waits until every worker has it. @throws when it is not taken */
  async pushGood(text: string, epoch: string, withinMs: number): Promise<void> {
    await until("the gateway is connected", withinMs, () => this.#socket !== undefined);
    this.#socket?.send(text);
    await until("the gateway applies a good snapshot", withinMs, () =>
      this.heard.some((message) => message.type === "applied" && message.epoch === epoch),
    );
  }

  async stop(): Promise<void> {
    for (const client of this.#server.clients) client.terminate();
    this.#server.close();
    await once(this.#server, "close");
  }
}
