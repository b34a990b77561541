// What the control plane's only thread computes in one go for the largest message of each kind that a gateway may send.

import { expect, it } from "vitest";
import { maxMessageBytes, readGatewayMessage } from "../../../control-plane/src/push/gateway-message.ts";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import { connectGateway, openSocket } from "../../fixtures/servers/gateway-double.ts";

const mostMs = 40;
const many = <Item>(count: number, make: (i: number) => Item): Item[] =>
  Array.from({ length: count }, (_, i) => make(i));
const namedNumbers = (count: number) => Object.fromEntries(many(count, (i) => [`n${i}`, i]));

/** The same with a list or fields that nobody reads. */
function withMore(message: object, more: string): string {
  return `${JSON.stringify(message).slice(0, -1)},${more}}`;
}

const counts = { allowed: 2 ** 40, refused: 2 ** 41, shadowRefused: 2 ** 42, degraded: 2 ** 43, delayed: 2 ** 44 };
const traffic = (seconds: number) => (nowMs: number, round: number) => ({
  type: "activity",
  nowMs,
  workers: [
    {
      toMs: nowMs,
      policies: many(500, (i) => ({
        app: `a${round}-${i}`,
        policy: `p${i}`,
        fromMs: nowMs - 1_000 * seconds - i,
        ...counts,
      })),
      keys: [],
    },
  ],
});
const keys = (lists: number, ofList: number) => (nowMs: number, round: number) => ({
  type: "activity",
  nowMs,
  workers: [
    {
      toMs: nowMs,
      policies: [],
      keys: many(lists, (i) => ({
        app: "a",
        policy: `p${round}-${i}`,
        key: ["ip/32/64"],
        result: "refused",
        sinceMs: nowMs,
        keys: many(ofList, (j) => `k${round}-${j}`.padEnd(20)),
        counts: many(ofList, (j) => j),
        error: 0,
        unlisted: 1,
      })),
    },
  ],
});

const heldConsumers = { epoch: "e", position: 1, count: 1, unstored: 1, lacking: namedNumbers(1_000) };
const problem = { path: "p".repeat(30), expected: "e".repeat(15), got: "g".repeat(15) };
const messages: [string, (nowMs: number, round: number) => object][] = [
  ["activity with traffic of a day", traffic(86_400)],
  ["activity with traffic of an hour", traffic(3_600)],
  ["activity with traffic of a minute", traffic(59)],
  ["activity with traffic of a second", traffic(1)],
  ["activity with many lists of keys", keys(1_000, 6)],
  ["activity with long lists of keys", keys(11, 1_000)],
  [
    "hello",
    () => ({
      type: "hello",
      gateway: "g".repeat(128),
      version: "v".repeat(128),
      workers: 1,
      ...{ epoch: "e".repeat(128), revision: 1, proof: "p".repeat(128), edition: "d".repeat(128), protocol: 3 },
      consumers: heldConsumers,
    }),
  ],
  ["applied", () => ({ type: "applied", epoch: "e", revision: 1 })],
  ["held", () => ({ type: "held", epoch: "e", revision: 1 })],
  ["resync", (_, round) => ({ type: "resync", epoch: "e", revision: round })],
  ["refused", () => ({ type: "refused", epoch: "e", revision: 1, problems: many(5_900, () => problem) })],
  ["consumers", () => ({ type: "consumers", ...heldConsumers })],
  ["status", () => ({ type: "status", counters: namedNumbers(32), errors: namedNumbers(32) })],
  [
    "counter",
    () => ({
      type: "counter",
      id: 1,
      limits: many(16, (i) => ({ name: `l${i}`, capacity: 1, remaining: 1, resetAfterUs: 1 })),
    }),
  ],
];

const applied = { type: "applied", epoch: "e", revision: 1 };
const ofMegabyte = (make: (i: number) => string) =>
  many(Math.floor((maxMessageBytes - 200) / make(99_999).length), make);
const room = maxMessageBytes - 100;
const understood: Record<string, string> = {
  "a long text": withMore(applied, `"x":"${"x".repeat(room)}"`),
  "a text of what ends none": withMore(applied, `"x":"${'\\"'.repeat(room / 2)}"`),
  "a text of what is between values": withMore(applied, `"x":"${",[{".repeat(room / 3)}"`),
  "as many fields as may be": withMore(applied, many(23_997, (i) => `"${i.toString(36)}":0`).join()),
  "as many objects as may be": withMore(applied, `"x":[${many(11_990, (i) => `{"${i.toString(36)}":0}`).join()}]`),
};
const refused: Record<string, string> = {
  fields: withMore(
    applied,
    ofMegabyte((i) => `"${i.toString(36)}":0,`)
      .join("")
      .slice(0, -1),
  ),
  objects: withMore(
    applied,
    `"x":[${ofMegabyte((i) => `{"${i.toString(36)}":0},`)
      .join("")
      .slice(0, -1)}]`,
  ),
  lists: withMore(applied, `"x":${"[".repeat(room / 2)}${"]".repeat(room / 2)}`),
};

it("a message has no more values than a gateway sends, but texts of any length", () => {
  for (const [what, text] of Object.entries(understood)) {
    expect([what, readGatewayMessage(text)]).toEqual([what, applied]);
    expect(text.length).toBeLessThanOrEqual(maxMessageBytes);
  }
  for (const [what, text] of Object.entries(refused)) {
    expect(text.length).toBeLessThanOrEqual(maxMessageBytes);
    expect([what, readGatewayMessage(text)]).toEqual([what, undefined]);
  }
});

it("no message makes the control plane stand for 40 ms", async () => {
  const plane = await startMeasuredProcess();
  const said = { epoch: "", revision: 0, protocol: 3, consumers: { epoch: "", position: 0, count: 0, unstored: 0 } };
  const longestMs: Record<string, number> = {};
  const measure = async (what: string, textOf: (round: number) => string) => {
    const turnsMs: number[] = [];
    for (let round = 0; round < 4; round++) {
      const isHello = what === "hello";
      const gateway = isHello ? await openSocket(plane.url) : await connectGateway(plane, "liar", said);
      if (!isHello) await gateway.next("fleet");
      await plane.longestTurnMs();
      gateway.say(textOf(round));
      await Promise.race([gateway.untilHeard(), gateway.closed]);
      turnsMs.push(await plane.longestTurnMs());
      gateway.socket.terminate();
    }
    longestMs[what] = Math.min(...turnsMs);
  };
  for (const [what, make] of messages) await measure(what, (round) => JSON.stringify(make(Date.now(), round)));
  for (const [what, text] of [...Object.entries(understood), ...Object.entries(refused)])
    await measure(what, () => text);
  console.log(longestMs);
  expect(Object.entries(longestMs).filter(([, ms]) => ms >= mostMs)).toEqual([]);
});
