// Makes hostile input: values, names and numbers that break programs, and JSON trees in which some places have been changed to
// them. The result is plain text, so that it can contain what no object could hold.

import fc from "fast-check";
import { namesOfPrototypes } from "../fixtures/documents/names-of-prototypes.ts";

const oddTexts = [
  "",
  " ",
  "\u0000",
  "a\u0000b",
  "\r\nx: y",
  "\ud800",
  "\udfff\ud800",
  "\u2028",
  "\ufeff",
  "ß",
  "İ",
  "é".normalize("NFD"),
  "👩‍👩‍👧‍👦",
  "%",
  "%00",
  "%2e%2e%2f",
  "../../etc/passwd",
  "*",
  "**",
  "{}",
  "{a}",
  "[",
  "$1",
  "null",
  "true",
  "NaN",
  "1e999",
  "-0",
  "0x10",
  "010",
  "1_000",
  "~",
  "~(a|a)*b",
  "~(((((((((((a{1,50}){1,50}",
  "~[",
  "~\\",
  "~(?=a)",
  "header:",
  "header:x y",
  "jwt:__proto__",
  "ip/0/0",
  "ip/33/129",
  "const:",
  "::ffff:1.2.3.4",
  "::/0",
  "0.0.0.0/0",
  "1.2.3.4/33",
  "request-bytes",
  "@",
  "@cached",
  "//",
  "/..",
  "/a/../b",
  "http://127.0.0.1/",
  "24:00",
  "00:00",
  "Etc/GMT+12",
  "Europe/../Berlin",
  "9999999999999999999999d",
  "0s",
  "366d",
  "1ms",
];

export const hostileTexts: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...namesOfPrototypes) },
  { weight: 4, arbitrary: fc.constantFrom(...oddTexts) },
  { weight: 2, arbitrary: fc.string({ unit: "binary", maxLength: 40 }) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom("a", "é", "\\", '"', "~(a", "[", "a,", "\u0001"), fc.constantFrom(64, 257, 1025, 20_000))
      .map(([text, times]) => text.repeat(times)),
  },
);

const hostileNumbers = fc.oneof(
  fc.constantFrom(
    ...[0, -1, 1, 0.5, 1e-7, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 63, 1e21, 1e308],
  ),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);

export const hostileValues: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: hostileTexts },
  { weight: 3, arbitrary: hostileNumbers },
  { weight: 3, arbitrary: fc.constantFrom<unknown>(null, true, false, [], {}, [[]], [null], { "": "" }) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom(...namesOfPrototypes), hostileTexts)
      .map(([name, text]) => objectOf([[name, text]])),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(hostileTexts, fc.constantFrom(9, 17, 257, 1001, 3000))
      .map(([text, times]) => Array.from({ length: times }, () => text.slice(0, 30))),
  },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
);

export interface Change {
  /** For "reword", a text of the tree is replaced by the name. */
  readonly how: "replace" | "delete" | "rename" | "add" | "wrap" | "repeat" | "reword";
  /** The index of the place in the tree, or of one of its texts, modulo their number. */
  readonly at: number;
  readonly name: string;
  readonly value: unknown;
}

export const changes: fc.Arbitrary<Change> = fc.record({
  how: fc.constantFrom("replace", "delete", "rename", "add", "wrap", "repeat", "reword", "reword", "reword"),
  at: fc.nat(10_000),
  name: hostileTexts,
  value: hostileValues,
});

/** @returns the tree with these changes, made one after the other */
export function changed(tree: unknown, ...by: readonly Change[]): unknown {
  return by.reduce(changedOnce, tree);
}

function changedOnce(tree: unknown, { how, at, name, value }: Change): unknown {
  if (how === "reword") return reworded(tree, at, name);
  let left = at % countOf(tree);
  const walk = (node: unknown): unknown => {
    const here = left === 0;
    left -= 1;
    if (here) {
      if (how === "add" && isObject(node)) return objectOf([...Object.entries(node), [name, value]]);
      if (how === "rename" && isObject(node)) {
        const [first, ...others] = Object.entries(node);
        return first === undefined ? node : objectOf([...others, [name, first[1]]]);
      }
      if (how === "delete" && isObject(node)) return objectOf(Object.entries(node).slice(1));
      if (how === "repeat" && Array.isArray(node)) return Array.from({ length: 40 }, () => node).flat();
      if (how === "delete" && Array.isArray(node)) return node.slice(1);
      return how === "wrap" ? [node] : value;
    }
    if (Array.isArray(node)) return node.map(walk);
    return isObject(node) ? objectOf(Object.entries(node).map(([key, inner]) => [key, walk(inner)])) : node;
  };
  return walk(tree);
}

function reworded(tree: unknown, at: number, name: string): unknown {
  let texts = 0;
  JSON.stringify(tree, (_, inner) => {
    if (typeof inner === "string") texts += 1;
    return inner;
  });
  let left = texts === 0 ? 0 : at % texts;
  const walk = (node: unknown): unknown => {
    if (typeof node === "string") {
      left -= 1;
      return left === -1 ? name : node;
    }
    if (Array.isArray(node)) return node.map(walk);
    return isObject(node) ? objectOf(Object.entries(node).map(([key, inner]) => [key, walk(inner)])) : node;
  };
  return walk(tree);
}

function countOf(tree: unknown): number {
  if (typeof tree !== "object" || tree === null) return 1;
  return Object.values(tree).reduce((sum: number, inner) => sum + countOf(inner), 1);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Makes an object in which `__proto__` is a field like any other. */
function objectOf(entries: readonly (readonly [string, unknown])[]): object {
  return Object.fromEntries(entries);
}

/** @returns a value that is present once in `times` */
export function seldom<Value>(arbitrary: fc.Arbitrary<Value>, times: number): fc.Arbitrary<Value | undefined> {
  return fc.oneof({ weight: times - 1, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
}

/** A change to the text of a tree that no object could hold. */
export interface TextChange {
  readonly how: "repeat a key" | "nest" | "number";
  readonly at: number;
  readonly depth: number;
}

export const textChanges: fc.Arbitrary<TextChange> = fc.record({
  how: fc.constantFrom("repeat a key", "nest", "number"),
  at: fc.nat(10_000),
  depth: fc.constantFrom(2, 30, 200, 1_001, 5_000, 40_000),
});

const oddNumbers = ["1e999", "-0", "1.0", "1E2", "0.1e1", `${"9".repeat(400)}`, "9007199254740993"];

export function changedText(json: string, ...by: readonly TextChange[]): string {
  return by.reduce(textChangedOnce, json);
}

function textChangedOnce(text: string, { how, at, depth }: TextChange): string {
  const places = [...text.matchAll(/"[^"\\]{1,40}":/g)];
  const place = places[at % places.length];
  if (place === undefined) return text;
  const behind = place.index + place[0].length;
  switch (how) {
    case "repeat a key":
      return `${text.slice(0, place.index)}${place[0]}1,${text.slice(place.index)}`;
    case "nest": {
      const nested =
        at % 2 === 0 ? "[".repeat(depth) + "]".repeat(depth) : `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
      return `${text.slice(0, behind)}${nested},"a":${text.slice(behind)}`;
    }
    case "number":
      return `${text.slice(0, behind)}${oddNumbers[at % oddNumbers.length]},"a":${text.slice(behind)}`;
  }
}

/** A change to bytes, as a broken disk, a cut connection or a patient stranger would make it. */
export interface ByteChange {
  readonly how: "flip" | "delete" | "insert" | "repeat" | "cut" | "swap";
  readonly at: number;
  readonly length: number;
  readonly bytes: Uint8Array;
}

const oddBytes = ["\u0000", "\u00ff\u00fe", "\ufeff", "\n", "\r\n", "\t", "{", "}", "[", "]", '"', "\\", ",", ":"].map(
  (text) => Buffer.from(text),
);
const invalidUtf8 = [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82]].map((bytes) =>
  Buffer.from(bytes),
);

/** @param tokens texts to insert, besides bytes that trouble every reader */
export function byteChanges(tokens: readonly string[] = []): fc.Arbitrary<ByteChange> {
  const inserted = [...oddBytes, ...invalidUtf8, ...tokens.map((text) => Buffer.from(text))];
  return fc.record({
    how: fc.constantFrom("flip", "delete", "insert", "insert", "repeat", "cut", "swap"),
    at: fc.nat(1_000_000),
    length: fc.constantFrom(1, 1, 2, 7, 40, 300),
    bytes: fc.oneof(fc.constantFrom(...inserted), fc.uint8Array({ minLength: 1, maxLength: 6 })),
  });
}

export function changedBytes(bytes: Buffer, ...by: readonly ByteChange[]): Buffer {
  return by.reduce(bytesChangedOnce, bytes);
}

function bytesChangedOnce(before: Buffer, { how, at, length, bytes: other }: ByteChange): Buffer {
  const place = at % (before.length + 1);
  const [head, tail] = [before.subarray(0, place), before.subarray(place)];
  switch (how) {
    case "flip":
      return Buffer.concat([head, Buffer.from([(tail[0] ?? 0) ^ (1 << (at % 8))]), tail.subarray(1)]);
    case "delete":
      return Buffer.concat([head, tail.subarray(length)]);
    case "insert":
      return Buffer.concat([head, other, tail]);
    case "repeat":
      return Buffer.concat([head, ...Array.from({ length: 20 }, () => tail.subarray(0, length)), tail]);
    case "cut":
      return Buffer.from(head);
    case "swap":
      return Buffer.concat([tail.subarray(0, length), head, tail.subarray(length)]);
  }
}

/** @returns an input as a person reads it, with bytes as hexadecimal */
export function readable(input: unknown): string {
  return (
    JSON.stringify(input, function (this: Record<string, unknown>, name: string, value: unknown) {
      const given = this[name];
      return given instanceof Uint8Array ? `hex ${Buffer.from(given).toString("hex")}` : value;
    }) ?? ""
  );
}
