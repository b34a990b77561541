// Sends hostile push frames to a gateway as its control plane. The gateway goes on deciding by its last good snapshot, no
// worker ends, and the next good snapshot is applied.

import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { ask } from "../fixtures/clients/requests.ts";
import { HeldState } from "../fixtures/documents/loaded-state.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { PushServer } from "../fixtures/servers/push-server.ts";
import { roomMs, until } from "../fixtures/until.ts";
import { GatewayWatch } from "./gateway-watch.ts";
import {
  type ByteChange,
  type Change,
  changed,
  changedBytes,
  changes,
  hostileTexts,
  readable,
  seldom,
} from "./hostile.ts";
import {
  type ChangedSnapshot,
  changedSnapshot,
  changedSnapshots,
  type Good,
  goodDelta,
  goodSnapshot,
  telltale,
  telltalePath,
  textDamage,
} from "./snapshot-texts.ts";
import { Fault, type Fuzzer, type Surroundings, type Target } from "./target.ts";

const workers = 2;
const quietMs = 60;
const lastOrder = 424_242;

type Saying =
  | { readonly says: "snapshot"; readonly snapshot: ChangedSnapshot }
  | { readonly says: "damaged" | "damaged delta"; readonly by: readonly ByteChange[] }
  | { readonly says: "delta from elsewhere" }
  | { readonly says: "older" }
  | { readonly says: "message"; readonly message: object; readonly by: readonly Change[] }
  | { readonly says: "text"; readonly text: string }
  | { readonly says: "binary" | "raw" | "ping" | "pong"; readonly bytes: Uint8Array }
  | { readonly says: "large"; readonly bytes: number; readonly frames: number }
  | { readonly says: "no end"; readonly text: string }
  | { readonly says: "close"; readonly code: number };

const order = { type: "counter", id: 1, do: "read", ...telltale, key: [] };
const messages = fc.constantFrom<object>(
  order,
  { ...order, do: "forget" },
  { ...order, do: "top-up", units: 5, limit: "default" },
  { ...order, policy: "paths", key: ["203.0.113.7", "ann", "x"] },
  { type: "fleet", gateways: 3 },
  { type: "snapshot", format: 1, epoch: "bare", revision: 1, policies: [] },
  { type: "delta", format: 1, epoch: "bare", revision: 2, from: { epoch: "bare", revision: 1 }, policies: [] },
);

const sayings: fc.Arbitrary<Saying> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ says: fc.constant("snapshot" as const), snapshot: changedSnapshots }) },
  {
    weight: 4,
    arbitrary: fc.record({ says: fc.constantFrom("damaged" as const, "damaged delta" as const), by: textDamage }),
  },
  { weight: 2, arbitrary: fc.constantFrom({ says: "older" as const }, { says: "delta from elsewhere" as const }) },
  {
    weight: 5,
    arbitrary: fc.record({
      says: fc.constant("message" as const),
      message: messages,
      by: fc.array(changes, { maxLength: 2 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ says: fc.constant("text" as const), text: fc.oneof(hostileTexts, fc.json()) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      says: fc.constant("large" as const),
      bytes: fc.constantFrom(70_000, 1_000_000, 9_000_000),
      frames: fc.constantFrom(1, 3, 200),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      says: fc.constantFrom("ping" as const, "pong" as const),
      bytes: fc.uint8Array({ maxLength: 125 }),
    }),
  },
);

/** Nothing can be sent after these: the connection is cut, and the gateway takes a second to come back. */
const endings: fc.Arbitrary<Saying> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.record({ says: fc.constant("binary" as const), bytes: fc.uint8Array({ maxLength: 60 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      says: fc.constant("raw" as const),
      bytes: fc.oneof(
        fc.uint8Array({ minLength: 1, maxLength: 40 }),
        // A frame longer than any that is read, one of 2^63 bytes, masked ones, reserved bits, a long ping, a lone continuation.
        fc.constantFrom(
          ...[
            [0x81, 127, 0, 0, 0, 0, 0x10, 0, 0, 0],
            [0x81, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            [0x81, 0x81, 1, 2, 3, 4, 5],
            [0xf1, 1, 0x61],
            [0x89, 126, 0, 200],
            [0x80, 1, 0x61],
            [0x88, 1, 0],
          ].map((list) => Uint8Array.from(list)),
        ),
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ says: fc.constant("no end" as const), text: hostileTexts }) },
  {
    weight: 1,
    arbitrary: fc.record({ says: fc.constant("close" as const), code: fc.constantFrom(1000, 1001, 1011, 3000) }),
  },
);

interface Speech {
  readonly sayings: readonly Saying[];
  readonly ending: Saying | undefined;
}

const speeches: fc.Arbitrary<Speech> = fc.record({
  sayings: fc.array(sayings, { minLength: 1, maxLength: 5 }),
  ending: seldom(endings, 8),
});

export const framesToGateway: Target = { name: "frames-to-gateway", worker: "gateway", start };

async function start({ stack, watch }: Surroundings): Promise<Fuzzer<unknown>> {
  const port = await freePort();
  const server = new PushServer(port);
  stack.defer(() => server.stop());
  const gateway = await LoneGateway.start({ workers, env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}` } });
  stack.defer(() => gateway.stop());
  const watched = new GatewayWatch("the gateway that is pushed to", gateway.directory);
  watch(watched);
  let pushed = 0;
  const fuzzer: Fuzzer<Speech> = {
    inputs: speeches,
    async play(input) {
      pushed += 1;
      const good: Good = { epoch: `good-${pushed}`, revision: 5, quota: 1_000_000 + pushed };
      await server.pushGood(goodSnapshot(good), good.epoch);
      server.received = [];
      const { socket } = server;
      for (const saying of input.sayings) if (server.socket === socket) say(server, saying, good);
      if (input.ending === undefined) await untilReceived(server, socket);
      else await cutOff(server, socket, input.ending, good);
      watched.look();
      await assess(gateway, server, input, good);
    },
    show: ({ sayings: said, ending }) => [...said, ending].map(readable).join("\n"),
    recover: async () => watched.begun(),
  };
  return fuzzer as Fuzzer<unknown>;
}

function say(server: PushServer, saying: Saying, good: Good): void {
  const { socket } = server;
  if (socket === undefined || socket.readyState !== socket.OPEN) return;
  switch (saying.says) {
    case "snapshot":
      socket.send(changedSnapshot(good, saying.snapshot));
      return;
    case "damaged":
      socket.send(changedBytes(Buffer.from(goodSnapshot(good)), ...saying.by), { binary: false });
      return;
    case "damaged delta":
      socket.send(changedBytes(Buffer.from(goodDelta(good)), ...saying.by), { binary: false });
      return;
    case "delta from elsewhere":
      socket.send(goodDelta({ ...good, revision: good.revision + 1, quota: 7 }));
      return;
    case "older":
      socket.send(goodSnapshot({ ...good, revision: good.revision - 1, quota: 7 }));
      return;
    case "message":
      socket.send(JSON.stringify(changed(saying.message, ...saying.by)) ?? "");
      return;
    case "text":
      socket.send(saying.text.toWellFormed());
      return;
    case "binary":
      socket.send(saying.bytes, { binary: true });
      return;
    case "raw":
      server.writeRaw(saying.bytes);
      return;
    case "ping":
      socket.ping(saying.bytes);
      return;
    case "pong":
      socket.pong(saying.bytes);
      return;
    case "large": {
      const part = '{"type":"snapshot",'.padEnd(Math.floor(saying.bytes / saying.frames), "x\n");
      for (let i = 1; i < saying.frames; i++) socket.send(part, { fin: false });
      socket.send(part);
      return;
    }
    case "no end":
      socket.send(saying.text.toWellFormed(), { fin: false });
      return;
    case "close":
      socket.close(saying.code, "");
      return;
  }
}

/** Waits for the answer to an order, which comes after everything sent before; snapshots may take a little longer. */
async function untilReceived(server: PushServer, socket: PushServer["socket"]): Promise<void> {
  const isOpen = () => socket !== undefined && socket.readyState === socket.OPEN && server.socket === socket;
  if (isOpen()) socket?.send(JSON.stringify({ ...order, id: lastOrder }));
  const deadlineMs = performance.now() + roomMs;
  const hasReply = () => server.received.some(({ type, id }) => type === "counter" && id === lastOrder);
  while (isOpen() && !hasReply()) {
    if (performance.now() > deadlineMs)
      throw new Fault("the gateway neither answers over its push socket nor hangs up");
    await sleep(5);
  }
  for (let before = -1; before !== server.received.length; ) {
    before = server.received.length;
    await sleep(quietMs);
  }
}

async function cutOff(server: PushServer, socket: PushServer["socket"], ending: Saying, good: Good): Promise<void> {
  if (server.socket === socket) say(server, ending, good);
  await sleep(quietMs);
  socket?.terminate();
  await until("the gateway is connected again", () => server.socket !== undefined && server.socket !== socket);
}

async function assess(
  gateway: LoneGateway,
  server: PushServer,
  { sayings: said, ending }: Speech,
  good: Good,
): Promise<void> {
  for (const { type, problems } of server.received) {
    const soleSnapshot = said.length === 1 ? said[0] : undefined;
    if (type !== "refused" || soleSnapshot?.says !== "snapshot" || soleSnapshot.snapshot.where !== "policies") continue;
    // The control plane uses the same validation, so it would have accepted and pushed what this one accepts.
    const held = new HeldState();
    held.take(goodSnapshot(good));
    if (held.take(changedSnapshot(good, soleSnapshot.snapshot)).frame !== undefined)
      throw new Fault(`refused a snapshot that Node accepts: ${JSON.stringify(problems)}`);
  }
  // A changed text that still is a snapshot may be applied; then its limits, or another's, decide. Such an answer is accepted.
  const harmless = ["older", "delta from elsewhere", "ping", "pong", "large"];
  if (server.received.some(({ type }) => type === "applied")) return;
  if (ending !== undefined && said.some(({ says }) => !harmless.includes(says))) return;
  for (let i = 0; i < workers; i++) {
    const { status, headers } = await ask(gateway.url + telltalePath);
    if (status >= 500) throw new Fault(`the gateway answered ${status}`);
    const limit = Number(headers["x-ratelimit-limit"]);
    if (limit !== good.quota && !server.received.some(({ type }) => type === "applied")) {
      throw new Fault(`decides by the limit ${limit}, and its last good snapshot has ${good.quota}`);
    }
  }
}
