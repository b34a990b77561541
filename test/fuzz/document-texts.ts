// Makes texts for the YAML and JSON parsers: put together from the languages' parts, also where these make no sense together,
// and policies whose bytes have been changed.

import fc from "fast-check";
import { namesOfPrototypes } from "../fixtures/documents/names-of-prototypes.ts";
import { type ByteChange, byteChanges, changedBytes } from "./hostile.ts";

export type TextType = "application/json" | "application/yaml";

export interface DocumentText {
  readonly type: TextType;
  readonly bytes: Buffer;
  /** If set, no reader may accept this as a document, whatever else it contains. */
  readonly never: string | undefined;
}

const policies = [
  "limits: [{ algorithm: fixed-window, quota: 5, window: 1s }]\n",
  "description: a policy\nmatch:\n  hosts: [a.example]\n  paths:\n    - /api/*\nkey: [ip, 'header:x-user']\nlimits:\n  - name: burst\n    algorithm: token-bucket\n    quota: 2\n    window: 1s\n    burst: 10\n",
  "limits: &l [{ algorithm: fixed-window, quota: 5, window: 1s }]\nkey: [ip]\noverrides:\n  - key: [vip]\n    limits: *l\n",
];

const jsonPolicies = [
  '{"limits":[{"algorithm":"fixed-window","quota":5,"window":"1s"}]}',
  '{"description":"é 👩","match":{"paths":["/a"]},"key":["ip"],"limits":[{"algorithm":"token-bucket","quota":2,"window":"1s","burst":10}]}',
];

const yamlTokens = [
  ...[
    "&a ",
    "*a",
    "!!omap ",
    "!!set ",
    "!!binary ",
    "!!timestamp ",
    "!!str ",
    "!!int ",
    "!!merge ",
    "!x ",
    "!<tag:x> ",
  ],
  ...[
    "%YAML 1.1\n---\n",
    "%TAG ! tag:x,2000:\n---\n",
    "---\n",
    "...\n",
    "--- |\n",
    "<<: ",
    "? ",
    "- ",
    ": ",
    "|\n",
    ">-\n",
  ],
  ...[
    "\t",
    "  ",
    "\n",
    "'",
    '"',
    "#",
    "[",
    "]",
    "{",
    "}",
    ",",
    "@",
    "`",
    "~",
    "010",
    "0o10",
    "0x10",
    "1_000",
    ".inf",
    ".nan",
  ],
  ...["yes", "null", "1e3", "12:30:45", "2001-01-01", "=", "\\x41", "\\u0000", "\u0085", "\u2028"],
  ...namesOfPrototypes.map((name) => `${name}: `),
];

const jsonTokens = [
  ...["NaN", "Infinity", "-", "01", "1.", "1e999", "//", "/**/", "'", "\\u0000", "\\ud800", "\\x", "undefined"],
  ...namesOfPrototypes.map((name) => `"${name}":`),
];

/** One short text, repeated many times. */
const repeated = fc
  .tuple(
    fc.constantFrom(
      ...[
        "[",
        "{",
        "- ",
        "? ",
        "a: }\n",
        "&a ",
        "!!str ",
        "- - ",
        "{a: ",
        "[[]",
        "'",
        "a:\n ",
        "*a ",
        "| ",
        "\t",
        "# x\n",
        "---\n",
      ],
      ...["a: 1\n", "&a a: *a\n", "? [", "<<: {", "- {a: [", '"', "\\", "%", ">", "a", "- a\n", "é", ", ", ": "],
    ),
    // Bodies may be that large; at most 1 MiB was ever read.
    fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(3, 40, 300, 2_000) },
      { weight: 2, arbitrary: fc.constantFrom(20_000, 60_000, 130_000) },
      { weight: 1, arbitrary: fc.constantFrom(250_000) },
    ),
  )
  .map(([text, times]) => text.repeat(Math.min(times, Math.floor(1_000_000 / text.length))));

/** Each anchor contains the one before many times: the size grows with the power. */
const aliasBombs = fc
  .record({
    levels: fc.integer({ min: 1, max: 30 }),
    width: fc.constantFrom(2, 9, 60, 1000, 4000),
    flow: fc.constantFrom("list", "map", "merge"),
  })
  .map(({ levels, width, flow }) => {
    const lines = ["a0: &a0 [x, x]"];
    for (let level = 1; level <= Math.min(levels, Math.ceil(60_000 / width)); level++) {
      const alias = `*a${level - 1}`;
      const inner =
        flow === "list"
          ? `[${Array.from({ length: width }, () => alias).join(", ")}]`
          : `{ ${Array.from({ length: width }, (_, i) => `${flow === "merge" && i === 0 ? "<<" : `k${i}`}: ${alias}`).join(", ")} }`;
      lines.push(`a${level}: &a${level} ${inner}`);
    }
    return `${lines.join("\n")}\n${policies[0]}`;
  });

/** Every alias has another anchor, so a bound for each anchor bounds nothing. */
const manyAnchors = fc
  .tuple(fc.constantFrom(10, 100, 1000, 8000), fc.constantFrom(1, 20, 200))
  .map(([count, width]) => {
    const big = `[${Array.from({ length: width }, () => "x").join(",")}]`;
    const lines = Array.from({ length: count }, (_, i) => `k${i}: &k${i} ${i === 0 ? big : `[*k${i - 1}]`}`);
    return `${lines.join("\n")}\n${policies[0]}`;
  });

const scalars = fc.oneof(
  fc.constantFrom(
    "a",
    "1",
    "'x y'",
    '"\\u00e9"',
    "010",
    "0x1F",
    "1e3",
    ".5",
    "~",
    "yes",
    "*a",
    "|\n    text",
    ">\n    text",
  ),
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.string({ maxLength: 12 }),
);

const { yaml } = fc.letrec<{ node: string; yaml: string }>((tie) => ({
  node: fc.oneof(
    { depthSize: "small" },
    { weight: 3, arbitrary: scalars },
    {
      weight: 2,
      arbitrary: fc.tuple(fc.constantFrom(...yamlTokens), tie("node")).map(([token, node]) => `${token}${node}`),
    },
    { weight: 1, arbitrary: fc.array(tie("node"), { maxLength: 4 }).map((items) => `[${items.join(", ")}]`) },
    {
      weight: 1,
      arbitrary: fc
        .array(fc.tuple(tie("node"), tie("node")), { maxLength: 4 })
        .map((pairs) => `{${pairs.map(([key, value]) => `${key}: ${value}`).join(", ")}}`),
    },
  ),
  yaml: fc
    .array(
      fc.tuple(
        fc.constantFrom("", "", "  ", "    ", "\t"),
        fc.constantFrom("a", "limits", "key", "- ", "? x", "<<"),
        tie("node"),
      ),
      { maxLength: 8 },
    )
    .map((lines) => lines.map(([indent, name, node]) => `${indent}${name}: ${node}\n`).join("")),
}));

/** Constructs that YAML 1.2's core schema does not have, and that no document may contain. */
const foreign = fc.constantFrom(
  ...[
    "match: !!omap [hosts: [a.example]]\n",
    "match: !!set {hosts}\n",
    "description: !!binary aGk=\n",
    "description: !x y\n",
  ],
  ...["description: !!timestamp 2001-01-01\n", "match: !!pairs [hosts: [a.example]]\n"],
);

const generated = fc.oneof(
  { weight: 3, arbitrary: yaml },
  { weight: 2, arbitrary: fc.tuple(yaml, fc.constantFrom(...policies)).map(([text, policy]) => `${text}${policy}`) },
  { weight: 1, arbitrary: repeated },
  { weight: 1, arbitrary: aliasBombs },
  { weight: 1, arbitrary: manyAnchors },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom(...policies), repeated)
      .map(([policy, text]) => `${policy}description: ${text}`),
  },
);

const mutatedYaml = mutated(policies, yamlTokens);
const mutatedJson = mutated(jsonPolicies, jsonTokens);

export const documentTexts: fc.Arbitrary<DocumentText> = fc.oneof(
  { weight: 5, arbitrary: generated.map((text) => made("application/yaml", Buffer.from(text))) },
  { weight: 5, arbitrary: mutatedYaml.map((bytes) => made("application/yaml", bytes)) },
  { weight: 5, arbitrary: mutatedJson.map((bytes) => made("application/json", bytes)) },
  { weight: 1, arbitrary: repeated.map((text) => made("application/json", Buffer.from(text))) },
  {
    weight: 1,
    arbitrary: foreign.map((text) => ({
      ...made("application/yaml", Buffer.from(`${text}${policies[0]}`)),
      never: "a tag that is not of YAML's core schema",
    })),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom("quota: 010", "quota: 0b11", "quota: 1_0").map((quota) => ({
      ...made("application/yaml", Buffer.from(`%YAML 1.1\n---\n${policies[0]?.replace("quota: 5", quota)}`)),
      never: "YAML 1.1",
    })),
  },
);

function mutated(of: readonly string[], tokens: readonly string[]): fc.Arbitrary<Buffer> {
  return fc
    .tuple(fc.constantFrom(...of), fc.array(byteChanges(tokens), { maxLength: 6 }))
    .map(([text, by]: [string, ByteChange[]]) => changedBytes(Buffer.from(text), ...by));
}

function made(type: TextType, bytes: Buffer): DocumentText {
  return { type, bytes, never: isUtf8(bytes) ? undefined : "bytes that are not UTF-8" };
}

function isUtf8(bytes: Buffer): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}
