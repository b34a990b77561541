// Makes what a gateway, or somebody with its token, may send over the push socket: good and bad messages, and broken frames.

import fc from "fast-check";
import { type Change, changed, changes, hostileTexts, seldom } from "./hostile.ts";

export type Step =
  /** A message that may be right; `ahead` says how far beyond the control plane's own position it claims to be. */
  | {
      readonly does: "message";
      readonly message: object;
      readonly ahead: number | undefined;
      readonly by: readonly Change[];
    }
  | { readonly does: "text"; readonly text: string; readonly cut: number | undefined }
  | { readonly does: "binary"; readonly bytes: Uint8Array }
  | { readonly does: "fragments"; readonly text: string; readonly ends: boolean }
  | { readonly does: "large"; readonly bytes: number }
  | { readonly does: "ping" | "pong"; readonly bytes: Uint8Array }
  | { readonly does: "close"; readonly code: number; readonly reason: string }
  /** Bytes sent below the library, which break the framing itself. */
  | { readonly does: "raw"; readonly bytes: Uint8Array }
  | { readonly does: "hang up" };

/** Gateways with these names come again and again; the real one has another name. */
export const gatewayIds = ["fuzz-1", "fuzz-2", "fuzz-3", "fuzz-4"];

const ids = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...gatewayIds) },
  { weight: 1, arbitrary: hostileTexts.map((text) => text.slice(0, 140)) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 1_000_000 }).map((n) => `many-${n}`) },
);

const ahead = fc.oneof(
  { weight: 3, arbitrary: fc.constant(undefined) },
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.constantFrom(-1, 1, 2, 1000, 2 ** 40) },
);

const hello = fc
  .record({
    gateway: ids,
    protocol: fc.constantFrom(undefined, 1, 2, 2, 2, 3, 2 ** 53),
    edition: fc.oneof(fc.constant(undefined), hostileTexts),
  })
  .map(({ gateway, ...said }) => ({
    type: "hello",
    gateway,
    version: "0.1.0",
    workers: 2,
    epoch: "",
    revision: 0,
    ...said,
  }));

const amount = fc.oneof(fc.nat(1_000), fc.constantFrom(0, -1, 0.5, 2 ** 32, 2 ** 53 - 1, 2 ** 53));
/** What is drawn from a seed does not change while the run lasts. */
const runBeganMs = Date.now();
const moment = fc.oneof(fc.nat(100_000), fc.constantFrom(0, -1, 1e13, 2 ** 53)).map((ago) => runBeganMs - ago);
const counted = fc.record({
  app: fc.oneof({ weight: 5, arbitrary: fc.constantFrom("default", "none") }, { weight: 1, arbitrary: hostileTexts }),
  policy: fc.oneof({ weight: 5, arbitrary: fc.constantFrom("a", "b") }, { weight: 1, arbitrary: hostileTexts }),
});
const policyActivity = fc
  .record({
    fromMs: moment,
    allowed: amount,
    refused: amount,
    shadowRefused: amount,
    degraded: amount,
    delayed: amount,
  })
  .chain((counts) => counted.map((of) => ({ ...of, ...counts })));
const keyActivity = fc
  .record({
    key: fc.array(fc.constantFrom("ip/32/64", "query:a"), { maxLength: 2 }),
    result: fc.constantFrom("admitted", "refused", "other"),
    sinceMs: moment,
    keys: fc.array(hostileTexts, { maxLength: 5 }),
    counts: fc.array(amount, { maxLength: 5 }),
    error: amount,
    unlisted: amount,
  })
  .chain((keys) => counted.map((of) => ({ ...of, ...keys })));
const activity = fc
  .record({
    toMs: moment,
    policies: fc.array(policyActivity, { maxLength: 5 }),
    keys: fc.array(keyActivity, { maxLength: 5 }),
  })
  .chain((worker) => moment.map((nowMs) => ({ type: "activity", nowMs, workers: [worker] })));

const problem = fc.record({ path: hostileTexts, expected: hostileTexts, got: hostileTexts });
const messages = fc.oneof(
  { weight: 4, arbitrary: hello },
  {
    weight: 6,
    arbitrary: fc
      .constantFrom("applied", "applied", "held", "resync")
      .map((type) => ({ type, epoch: "", revision: 0 })),
  },
  {
    weight: 2,
    arbitrary: fc
      .array(problem, { maxLength: 120 })
      .map((problems) => ({ type: "refused", epoch: "", revision: 0, problems })),
  },
  {
    weight: 2,
    arbitrary: fc
      .dictionary(hostileTexts, fc.double({ noNaN: true }), { maxKeys: 20 })
      .map((counters) => ({ type: "status", counters, redis: { state: "ok", sinceSeconds: 1 } })),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(900, 1_001).map((count) => ({
      type: "status",
      counters: Object.fromEntries(Array.from({ length: count }, (_, i) => [`c${i}`.repeat(10), i])),
    })),
  },
  { weight: 3, arbitrary: activity },
  {
    weight: 2,
    arbitrary: fc.nat(20).map((id) => ({
      type: "counter",
      id,
      limits: [{ name: "default", capacity: 5, remaining: 5, resetAfterUs: 0 }],
    })),
  },
);

const bytes = fc.uint8Array({ maxLength: 130 });
const ofMessage = fc.record({
  does: fc.constant("message" as const),
  message: messages,
  ahead,
  by: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 2, arbitrary: fc.array(changes, { maxLength: 2 }) },
  ),
});

const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: ofMessage },
  {
    weight: 2,
    arbitrary: fc.record({
      does: fc.constant("text" as const),
      text: fc.oneof(
        messages.map((message) => JSON.stringify(message)),
        hostileTexts,
        fc.json(),
      ),
      cut: seldom(fc.nat(200), 3),
    }),
  },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("binary" as const), bytes }) },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constant("fragments" as const),
      text: messages.map((message) => JSON.stringify(message)),
      ends: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constant("large" as const),
      bytes: fc.constantFrom(100_000, 1_048_576, 1_048_577, 3_000_000),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      does: fc.constantFrom("ping" as const, "pong" as const),
      bytes: fc.uint8Array({ maxLength: 125 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constant("close" as const),
      code: fc.constantFrom(1000, 1001, 1002, 1008, 3000, 4000, 4999),
      reason: fc.constantFrom("", "bye", "é".repeat(60)),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constant("raw" as const),
      bytes: fc.oneof(
        bytes,
        // An unmasked frame, reserved bits and opcodes, lengths that never come or exceed 2^53, a ping of 126 bytes, invalid UTF-8.
        fc.constantFrom(
          ...[
            [0x81, 1, 0x61],
            [0xf1, 0x80, 0, 0, 0, 0],
            [0x83, 0x80, 0, 0, 0, 0],
            [0x81, 0xff, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff],
          ].map((list) => Uint8Array.from(list)),
          ...[
            [0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
            [0x89, 0xfe, 0, 126, 0, 0, 0, 0],
          ].map((list) => Uint8Array.from(list)),
          Uint8Array.from([0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe]),
        ),
      ),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ does: "hang up" as const }) },
);

export const conversations: fc.Arbitrary<readonly Step[]> = fc
  .tuple(
    fc.oneof(
      // Most begin with hello, so that the rest of what they send is read.
      {
        weight: 5,
        arbitrary: hello.map((message): Step[] => [{ does: "message", message, ahead: undefined, by: [] }]),
      },
      { weight: 1, arbitrary: fc.constant<Step[]>([]) },
    ),
    fc.array(steps, { minLength: 1, maxLength: 6 }),
  )
  .map(([first, others]) => [...first, ...others]);

/** @param reported the newest position that the control plane sent on this socket @returns the message as it is sent */
export function messageText(
  step: Extract<Step, { does: "message" }>,
  reported: { epoch: string; revision: number },
): string {
  const { message, ahead: by } = step;
  const positioned =
    by === undefined || !("epoch" in message)
      ? message
      : { ...message, epoch: reported.epoch, revision: reported.revision + by };
  return JSON.stringify(changed(positioned, ...step.by)) ?? "";
}
