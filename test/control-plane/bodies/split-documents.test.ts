// However a body of many documents is cut into chunks, its documents and their lines are the same.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { maxBodyBytes } from "../../../control-plane/src/bodies/bounds.ts";
import { readYaml } from "../../../control-plane/src/bodies/read-yaml.ts";
import {
  type Splitter,
  splitJsonLines,
  splitYamlDocuments,
} from "../../../control-plane/src/bodies/split-documents.ts";

type Found = [line: number, text: string | undefined];

/** @param cuts places in the body, in any order */
function split(splitter: Splitter, body: Buffer, cuts: readonly number[] = []): Found[] {
  const places = [0, ...cuts.map((cut) => cut % (body.length + 1)), body.length].sort((a, b) => a - b);
  const pieces = places.slice(1).flatMap((to, i) => {
    // A stream may use the memory of a chunk again.
    const chunk = Buffer.from(body.subarray(places[i], to));
    const found = splitter.push(chunk);
    chunk.fill(0);
    return found;
  });
  return [...pieces, ...splitter.end()].map(({ line, bytes }) => [line, bytes?.toString("utf8")]);
}

const cuts = fc.array(fc.nat(), { maxLength: 40 });
const lineEnd = fc.constantFrom("\n", "\r\n");
const mark = fc.boolean();
const withMark = (text: string, isMarked: boolean) => Buffer.from(`${isMarked ? "\ufeff" : ""}${text}`);

describe("JSON lines", () => {
  const value = fc.oneof(
    fc.json(),
    fc.string({ unit: "grapheme" }).map((text) => JSON.stringify({ text })),
  );
  const blank = fc.constantFrom("", " ", "\t", "  \t ");
  const line = fc.oneof({ weight: 3, arbitrary: value }, { weight: 1, arbitrary: blank });

  it("are the same documents on the same lines in any chunks, with any line ends", () => {
    const body = fc.record({ lines: fc.array(fc.tuple(line, lineEnd)), last: line, mark, cuts });
    fc.assert(
      fc.property(body, ({ lines, last, mark: isMarked, cuts: places }) => {
        const bytes = withMark(lines.map((parts) => parts.join("")).join("") + last, isMarked);
        const all = [...lines.map(([text]) => text), last];
        const expected = all.flatMap((text, i) => (text.trim() === "" ? [] : [[i + 1, JSON.parse(text)]]));
        const found = split(splitJsonLines(), bytes, places);
        expect(found.map(([at, text]) => [at, JSON.parse(text as string)])).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  it("that are too long are dropped, and those after them are not", () => {
    const long = "x".repeat(maxBodyBytes + 1);
    const whole = "y".repeat(maxBodyBytes);
    const body = Buffer.from(`1\n${long}\n${whole}\n2`);
    const expected: Found[] = [
      [1, "1"],
      [2, undefined],
      [3, whole],
      [4, "2"],
    ];
    expect(split(splitJsonLines(), body)).toEqual(expected);
    expect(split(splitJsonLines(), body, [maxBodyBytes - 5, maxBodyBytes + 4, 2 * maxBodyBytes])).toEqual(expected);
  });
});

describe("YAML documents", () => {
  /** Texts of lines that look like what they are not. */
  const word = fc.oneof(
    fc.constantFrom("---x", "--", "- ---", "....", "#", "é😀", "a: b", "%x", " ---"),
    fc.string({ unit: "grapheme" }),
  );
  const value = fc.record({ name: word, more: fc.array(word, { maxLength: 3 }) });
  /** As JSON, which is YAML; over several lines; or as a text block, in which markers are indented. */
  const written = fc.oneof(
    value.map((one) => ({ one, text: JSON.stringify(one) })),
    value.map((one) => ({ one, text: JSON.stringify(one, undefined, 2) })),
    fc
      .constantFrom("---", "...", "# no comment")
      .map((text) => ({ one: { text: `${text}\n` }, text: `text: |\n  ${text}` })),
  );
  const before = fc.constantFrom(
    "---\n",
    "--- # first\n",
    "---\n# comment\n\n",
    "---\n---\n",
    "...\n---\n",
    "...\n%YAML 1.2\n---\n",
  );
  const end = fc.constantFrom("", "\n", "\n---\n", "\n...\n", "\n# the end");

  it("are the same in any chunks, with any line ends", () => {
    const body = fc.record({
      documents: fc.array(fc.tuple(before, written)),
      end,
      isBare: fc.boolean(),
      mark,
      lineEnd,
      cuts,
    });
    fc.assert(
      fc.property(body, ({ documents, end: last, isBare, mark: isMarked, lineEnd: newline, cuts: places }) => {
        const text = documents
          .map(([marker, { text: one }], i) => `${i === 0 && isBare ? "" : marker}${one}\n`)
          .join("");
        const bytes = withMark((text + last).replaceAll("\n", newline), isMarked);
        const found = split(splitYamlDocuments(), bytes, places);
        expect(found).toEqual(split(splitYamlDocuments(), bytes));
        const read = found.map(([line, one]) => readYaml(one as string, line));
        const values = read.map((reading) => ("json" in reading ? JSON.parse(reading.json) : reading));
        expect(values).toEqual(documents.map(([, { one }]) => one));
      }),
      { numRuns: 300 },
    );
  });

  it("begin on the line of their marker, or of what comes first", () => {
    const body = "\n# all\na: 1\n---\n---\n\nb: 1\n...\n\n# next\n%YAML 1.2\n---\nc: 1\n--- {d: 1}\n---\n";
    const lines = split(splitYamlDocuments(), Buffer.from(body)).map(([line]) => line);
    expect(lines).toEqual([3, 5, 11, 14]);
  });

  it("that are too long are dropped, and those after them are not", () => {
    const long = `a: |\n${"  x\n".repeat(maxBodyBytes / 4)}`;
    const wide = "x".repeat(maxBodyBytes + 1);
    const found = split(splitYamlDocuments(), Buffer.from(`${long}---\nb: 1\n---\n${wide}\n---\nc: 1`));
    const firstLine = maxBodyBytes / 4 + 2;
    expect(found).toEqual([
      [1, undefined],
      [firstLine, "---\nb: 1\n"],
      [firstLine + 2, undefined],
      [firstLine + 4, "---\nc: 1\n"],
    ]);
  });
});
