// Stands between gateways and a Redis that is well, and does to the connection what a network does: refuses it, makes it
// slow, breaks it when the reply is on its way.

import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../fixtures/free-ports.ts";

export class TcpProxy {
  readonly port: number;
  /** Each way. */
  delayMs = 0;
  /** Asked for each piece that comes back: whether the connection breaks instead. */
  losesReply: () => boolean = () => false;
  readonly #host: string;
  readonly #targetPort: number;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;

  private constructor(port: number, host: string, targetPort: number) {
    this.port = port;
    this.#host = host;
    this.#targetPort = targetPort;
  }

  static async start(targetPort: number, host = "127.0.0.1"): Promise<TcpProxy> {
    const proxy = new TcpProxy(await freePort(), host, targetPort);
    await proxy.accept();
    return proxy;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  async accept(): Promise<void> {
    const server = createServer((client) => this.#join(client));
    server.listen(this.port, this.#host);
    await once(server, "listening");
    this.#server = server;
  }

  /** Breaks every connection and lets no other come. */
  async refuse(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.close();
    this.hangUp();
    await once(server, "close");
  }

  /** Breaks every connection. */
  hangUp(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #join(client: Socket): void {
    const target = connect(this.#targetPort, "127.0.0.1");
    const end = () => {
      client.destroy();
      target.destroy();
    };
    for (const socket of [client, target]) {
      socket.setNoDelay(true);
      this.#sockets.add(socket);
      socket.on("error", end);
      socket.on("close", () => {
        this.#sockets.delete(socket);
        end();
      });
    }
    const toTarget = this.#later(target);
    const toClient = this.#later(client);
    client.on("data", toTarget);
    target.on("data", (piece: Buffer) => (this.losesReply() ? end() : toClient(piece)));
  }

  /** @returns what writes a piece behind those before it, `delayMs` after it came */
  #later(socket: Socket): (piece: Buffer) => void {
    let before: Promise<unknown> | undefined;
    return (piece) => {
      if (this.delayMs === 0 && before === undefined) {
        socket.write(piece);
        return;
      }
      const dueMs = performance.now() + this.delayMs;
      const written = Promise.resolve(before)
        .then(() => sleep(Math.max(0, dueMs - performance.now())))
        .then(() => socket.destroyed || socket.write(piece))
        .finally(() => {
          if (before === written) before = undefined;
        });
      before = written;
    };
  }
}
