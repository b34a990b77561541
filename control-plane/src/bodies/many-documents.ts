// Reads a body of many documents while it arrives. What is not a document is reported with its line, and reading goes on, so
// that one answer has all faults. The client sends no faster than documents are read.

import type { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import type { BodyKind, HeldBody } from "./bodies-held.ts";
import { maxBodyBytes, maxManyBytes } from "./bounds.ts";
import type { Waiter } from "./fair-line.ts";
import { type Piece, type Splitter, splitJsonLines, splitYamlDocuments } from "./split-documents.ts";
import type { YamlThread } from "./yaml-thread.ts";
import type { YamlText } from "./yaml-worker.ts";

export type ReadDocument =
  | { readonly line: number; readonly document: unknown }
  /** `line` is where the fault is. */
  | { readonly line: number; readonly fault: { readonly expected: string; readonly got: string } };

export type ManyFormat = "jsonl" | "yaml";

/** For `BodiesHeld`. */
export const manyDocuments: BodyKind = {
  mostBytes: maxManyBytes,
  tooLarge: `The body is larger than ${maxManyBytes / 1_048_576} MiB, the most for many documents. Nothing was stored.`,
  bytesForEach: 1,
  leastBytes: 1_048_576,
};

export interface ManyBody {
  readonly stream: Readable;
  readonly format: ManyFormat;
  readonly yaml: YamlThread;
  readonly waiter: Waiter;
  /** @throws ApiError with a clause */
  readonly parseJson: (text: string) => unknown;
  readonly held: HeldBody;
  /** Resolves when what has come may be read. */
  ownTurn(): Promise<void>;
}

/** @returns the documents in their order, in lists. Rejects if the body breaks off, or as `HeldBody` and `YamlThread` do. */
export function readMany(body: ManyBody): AsyncGenerator<readonly ReadDocument[]> {
  return body.held.untilGivenWay(readAll(body));
}

async function* readAll(body: ManyBody): AsyncGenerator<readonly ReadDocument[]> {
  const splitter = body.format === "yaml" ? splitYamlDocuments() : splitJsonLines();
  const read = body.format === "yaml" ? readYamlPieces : readJsonPieces;
  for await (const pieces of piecesOf(body, splitter)) yield* read(pieces, body);
}

async function* piecesOf({ stream, held, ownTurn }: ManyBody, splitter: Splitter): AsyncGenerator<readonly Piece[]> {
  for await (const chunk of held.chunks(stream)) {
    // Chunks may come faster than other requests get their turn, and on many connections at once.
    await setImmediate();
    await ownTurn();
    const pieces = splitter.push(chunk);
    if (pieces.length > 0) yield pieces;
  }
  yield splitter.end();
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @returns the text, or what is wrong with it */
function textOf({ line, bytes }: Piece): { text: string; line: number } | ReadDocument {
  if (bytes === undefined) {
    const expected = `a document of at most ${maxBodyBytes / 1024} KiB`;
    return { line, fault: { expected, got: "more, without a line end or --- in it (curl needs --data-binary)" } };
  }
  try {
    return { line, text: utf8.decode(bytes) };
  } catch {
    return { line, fault: { expected: "UTF-8", got: "bytes that are not" } };
  }
}

/** Documents that are parsed in one go. */
const parsedAtOnce = 100;

async function* readJsonPieces(pieces: readonly Piece[], { parseJson }: ManyBody): AsyncGenerator<ReadDocument[]> {
  for (let at = 0; at < pieces.length; at += parsedAtOnce) {
    yield pieces.slice(at, at + parsedAtOnce).map((piece): ReadDocument => {
      const read = textOf(piece);
      if (!("text" in read)) return read;
      try {
        return { line: piece.line, document: parseJson(read.text) };
      } catch (error) {
        return { line: piece.line, fault: { expected: "JSON on one line", got: (error as Error).message } };
      }
    });
  }
}

/** What the thread of YAML gets at once: as much as one large document. */
const batchBytes = maxBodyBytes;
const batchTexts = 200;

async function* readYamlPieces(pieces: readonly Piece[], body: ManyBody): AsyncGenerator<ReadDocument[]> {
  let batch: Piece[] = [];
  let bytes = 0;
  for (const piece of pieces) {
    const more = piece.bytes?.length ?? 0;
    if (batch.length === batchTexts || bytes + more > batchBytes) {
      yield await readBatch(batch, body);
      batch = [];
      bytes = 0;
    }
    batch.push(piece);
    bytes += more;
  }
  if (batch.length > 0) yield await readBatch(batch, body);
}

async function readBatch(pieces: readonly Piece[], { yaml, waiter }: ManyBody): Promise<ReadDocument[]> {
  const read = pieces.map(textOf);
  const texts = read.filter((one): one is YamlText => "text" in one);
  const readings = texts.length === 0 ? [] : await yaml.readEach(texts, waiter);
  const readingOf = new Map(texts.map((text, i) => [text, readings[i]]));
  return read.map((one): ReadDocument => {
    if (!("text" in one)) return one;
    const reading = readingOf.get(one);
    if (reading !== undefined && "json" in reading) return { line: one.line, document: JSON.parse(reading.json) };
    const fault = { expected: "YAML as it is read here", got: reading?.refusal ?? "nothing" };
    return { line: reading?.line ?? one.line, fault };
  });
}
