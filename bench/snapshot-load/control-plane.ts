// The control plane's side of the push socket, with the control plane's own code for what is sent and how. Only the database is
// missing, so that snapshots are ready before they are measured.
import { once } from "node:events";
import { type WebSocket, WebSocketServer } from "ws";
import { GatewayLink } from "../../control-plane/src/push/gateway-link.ts";
import { type SnapshotFrame, snapshotFrame } from "../../control-plane/src/push/snapshot-frame.ts";

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
  /** @returns how long it took until every worker used it for its decisions, in ms */
  push(frame: SnapshotFrame): Promise<number>;
}

/** @returns the connection of the first gateway that connects */
export function listen(port: number): Promise<Connected> {
  const server = new WebSocketServer({ port, host: "127.0.0.1", path: "/api/v1/push" });
  return once(server, "connection").then(([socket]) => connected(socket as WebSocket));
}

function connected(socket: WebSocket): Connected {
  const link = new GatewayLink(socket, () => undefined);
  const closed = once(socket, "close").then(() => {
    throw new Error("the gateway closed its socket");
  });
  // A caller that waits for an answer gets this error; nobody else needs it.
  closed.catch(() => undefined);
  setInterval(() => link.ping(silenceMs), silenceMs / 5).unref();
  return {
    async push(frame) {
      const beganAt = performance.now();
      const applied = new Promise<number>((resolve, reject) => {
        const receive = (data: unknown) => {
          const message = JSON.parse(String(data));
          if (message.revision !== frame.revision) return;
          socket.off("message", receive);
          if (message.type === "applied") resolve(performance.now() - beganAt);
          else reject(new Error(`revision ${frame.revision}: expected applied, got ${String(data)}`));
        };
        socket.on("message", receive);
      });
      link.sendSnapshot(frame);
      return Promise.race([applied, closed]);
    },
  };
}
