// The control plane's side of the push socket, with the control plane's own code for what is sent. Only the database is missing, so
// that snapshots and deltas are ready before they are measured.
import { once } from "node:events";
import { type WebSocket, WebSocketServer } from "ws";
import { PushedState } from "../../control-plane/src/push/pushed-state.ts";

export type Documents = readonly { readonly name: string; readonly document: string }[];

/** A snapshot or a delta. */
export interface Message {
  readonly revision: number;
  /** The content of one text message. */
  readonly bytes: Buffer;
}

const epoch = "bench";
const edition = "bench";
const app = "default";
const nothingElse = { proofKey: "", terms: [], apps: [], networkLists: [], bans: [], callers: [] };

export async function snapshotOf(revision: number, documents: Documents): Promise<Message> {
  return messageOf((await stateOf(revision, documents)).snapshot());
}

/** @param changed one policy for each delta @returns a delta for each, from the revision before it */
export async function deltasAfter(revision: number, documents: Documents, changed: Documents): Promise<Message[]> {
  const state = await stateOf(revision, documents);
  const deltas: Message[] = [];
  for (const { name, document } of changed) {
    const { position } = state;
    const policies = [{ app, name, document, wasDeleted: false }];
    const changes = { ...nothingElse, epoch, revision: position.revision + 1, policies, templates: new Map() };
    await state.apply(changes, Date.now());
    const delta = state.deltaFrom(position);
    if (delta === undefined) throw new Error(`expected a delta from revision ${position.revision}, got none`);
    deltas.push(messageOf(delta));
  }
  return deltas;
}

function stateOf(revision: number, documents: Documents): Promise<PushedState> {
  const policies = documents.map(({ name, document }) => ({ app, name, document }));
  return PushedState.from(edition, { ...nothingElse, epoch, revision, policies, templates: [] }, Date.now());
}

function messageOf({ position, pieces }: ReturnType<PushedState["snapshot"]>): Message {
  return { revision: position.revision, bytes: Buffer.concat(pieces) };
}

/** As the control plane has it: a gateway reads a frame in one go, and a large one would delay its requests. */
const mostFrameBytes = 65_536;
const silenceMs = 15_000;

export interface Connected {
  /** What the gateway said in its hello; 1 for a gateway that said none: it takes no deltas. */
  readonly protocol: number;
  /** @returns how long it took until every worker used it for its decisions, in ms */
  push(message: Message): Promise<number>;
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
  const closed = once(socket, "close").then(() => {
    throw new Error("the gateway closed its socket");
  });
  // A caller that waits for an answer gets this error; nobody else needs it.
  closed.catch(() => undefined);
  const pings = setInterval(() => socket.ping(), silenceMs / 5).unref();
  return {
    protocol,
    async push({ revision, bytes }) {
      const beganAt = performance.now();
      const applied = new Promise<number>((resolve, reject) => {
        const receive = (data: unknown) => {
          const answer = JSON.parse(String(data));
          // Held: not every worker has it yet, and the answer comes later.
          if (answer.revision !== revision || answer.type === "held") return;
          socket.off("message", receive);
          if (answer.type === "applied") resolve(performance.now() - beganAt);
          else reject(new Error(`revision ${revision}: expected applied, got ${String(data)}`));
        };
        socket.on("message", receive);
      });
      for (let from = 0; from < bytes.length; from += mostFrameBytes) {
        const end = from + mostFrameBytes;
        socket.send(bytes.subarray(from, end), { binary: false, fin: end >= bytes.length });
      }
      return Promise.race([applied, closed]);
    },
    close() {
      clearInterval(pings);
      socket.terminate();
      server.close();
    },
  };
}
