// The control plane's side of the push socket, with the control plane's own code for what is sent and how. Only the database is
// missing, so that snapshots are ready before they are measured.
import { once } from "node:events";
import { type WebSocket, WebSocketServer } from "ws";
import { GatewayLink } from "../../control-plane/src/push/gateway-link.ts";
import { type SnapshotFrame, snapshotFrame } from "../../control-plane/src/push/snapshot-frame.ts";
import type { DeltaFrame } from "./delta-frame.ts";

export type Documents = readonly { readonly name: string; readonly document: string }[];

export function frameOf(revision: number, policies: Documents): Promise<SnapshotFrame> {
  const state = {
    epoch: "bench",
    revision,
    proofKey: "",
    policies: policies.map(({ document }) => ({ app: "default", document })),
    apps: [],
    templates: [],
    bans: [],
    callers: [],
  };
  return snapshotFrame(state, Date.now());
}

const silenceMs = 15_000;

export interface Connected {
  /** What the gateway said in its hello; 1 for a gateway that said none: it takes no deltas. */
  readonly protocol: number;
  /** @returns how long it took until every worker used it for its decisions, in ms */
  push(frame: SnapshotFrame): Promise<number>;
  pushDelta(frame: DeltaFrame): Promise<number>;
  close(): void;
}

/** @returns the connection of the first gateway that connects and says hello */
export async function listen(port: number): Promise<Connected> {
  const server = new WebSocketServer({ port, host: "127.0.0.1", path: "/api/v1/push" });
  const [socket] = (await once(server, "connection")) as [WebSocket];
  const [hello] = await once(socket, "message");
  const { protocol = 1 } = JSON.parse(String(hello)) as { protocol?: number };
  return connected(server, socket, protocol);
}

function connected(server: WebSocketServer, socket: WebSocket, protocol: number): Connected {
  const link = new GatewayLink(socket, () => undefined);
  const closed = once(socket, "close").then(() => {
    throw new Error("the gateway closed its socket");
  });
  // A caller that waits for an answer gets this error; nobody else needs it.
  closed.catch(() => undefined);
  const pings = setInterval(() => link.ping(silenceMs), silenceMs / 5).unref();
  const untilApplied = async (wanted: number, send: () => void) => {
    const beganAt = performance.now();
    const applied = new Promise<number>((resolve, reject) => {
      const receive = (data: unknown) => {
        const message = JSON.parse(String(data));
        if (message.revision !== wanted) return;
        socket.off("message", receive);
        if (message.type === "applied") resolve(performance.now() - beganAt);
        else reject(new Error(`revision ${wanted}: expected applied, got ${String(data)}`));
      };
      socket.on("message", receive);
    });
    send();
    return Promise.race([applied, closed]);
  };
  return {
    protocol,
    push: (frame) => untilApplied(frame.revision, () => link.sendSnapshot(frame)),
    pushDelta: ({ revision, bytes }) => untilApplied(revision, () => socket.send(bytes, { binary: false })),
    close() {
      clearInterval(pings);
      socket.terminate();
      server.close();
    },
  };
}
