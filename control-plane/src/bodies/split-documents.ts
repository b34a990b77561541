// Splits a body of many documents into its documents while it arrives: JSON lines at line ends, YAML at its markers. Both
// separators are ASCII, so bytes are split, and no character that is cut between two chunks is ever decoded half.

import { maxBodyBytes } from "./bounds.ts";

export interface Piece {
  /** The line of the body that the document begins on; the first is 1. */
  readonly line: number;
  /** Undefined: the document is longer than `maxBodyBytes`. */
  readonly bytes: Buffer | undefined;
}

export interface Splitter {
  /** @returns the documents that are complete by now */
  push(chunk: Buffer): Piece[];
  /** @returns the last document, which needs no line end */
  end(): Piece[];
}

export function splitJsonLines(): Splitter {
  return new JsonLines();
}

export function splitYamlDocuments(): Splitter {
  return new YamlDocuments();
}

const lineFeed = 10;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
const marker = Buffer.from("---");
const endMarker = Buffer.from("...");
const [hash, percent] = [35, 37];

/** Bytes that are kept until they are complete. What is longer than a document may be is counted, and dropped. */
class Kept {
  #bytes = Buffer.alloc(0);
  length = 0;

  get isTooLong(): boolean {
    return this.length > maxBodyBytes;
  }

  add(more: Buffer): void {
    const length = this.length + more.length;
    if (length <= maxBodyBytes) {
      if (length > this.#bytes.length) {
        const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#bytes.length, 1_024));
        this.#bytes.copy(larger, 0, 0, this.length);
        this.#bytes = larger;
      }
      more.copy(this.#bytes, this.length);
    }
    this.length = length;
  }

  /** @returns a copy of what was added; undefined: it is too long */
  take(): Buffer | undefined {
    const taken = this.isTooLong ? undefined : Buffer.from(this.#bytes.subarray(0, this.length));
    this.length = 0;
    return taken;
  }
}

abstract class ByLines implements Splitter {
  protected found: Piece[] = [];
  protected lineNumber = 0;
  /** The beginning of a line whose end has not come yet. */
  readonly #begun = new Kept();

  /** @param bytes without the line feed; undefined: the line is too long */
  protected abstract take(bytes: Buffer | undefined): void;

  /** Takes lines without anything, as many as there are line feeds: a body may have millions of them. */
  protected abstract takeEmpty(lineFeeds: Buffer): void;

  push(chunk: Buffer): Piece[] {
    let from = this.#begun.length === 0 ? this.#skipEmpty(chunk, 0) : 0;
    for (let to = chunk.indexOf(lineFeed, from); to >= 0; to = chunk.indexOf(lineFeed, from)) {
      this.#endLine(chunk.subarray(from, to));
      from = this.#skipEmpty(chunk, to + 1);
    }
    if (from < chunk.length) this.#begun.add(chunk.subarray(from));
    return this.#taken();
  }

  end(): Piece[] {
    if (this.#begun.length > 0) this.#endLine(Buffer.alloc(0));
    return this.#taken();
  }

  /** @returns the index of the first byte that is no line feed */
  #skipEmpty(chunk: Buffer, from: number): number {
    let to = from;
    while (chunk[to] === lineFeed) to += 1;
    if (to > from) {
      this.lineNumber += to - from;
      this.takeEmpty(chunk.subarray(from, to));
    }
    return to;
  }

  #endLine(rest: Buffer): void {
    this.lineNumber += 1;
    let line: Buffer | undefined = rest;
    if (this.#begun.length > 0) {
      this.#begun.add(rest);
      line = this.#begun.take();
    } else if (rest.length > maxBodyBytes) line = undefined;
    const isMarked = this.lineNumber === 1 && line?.subarray(0, byteOrderMark.length).equals(byteOrderMark) === true;
    this.take(isMarked ? line?.subarray(byteOrderMark.length) : line);
  }

  #taken(): Piece[] {
    const { found } = this;
    this.found = [];
    return found;
  }
}

class JsonLines extends ByLines {
  protected override takeEmpty(): void {}

  protected override take(bytes: Buffer | undefined): void {
    if (bytes !== undefined && beginOf(bytes) === bytes.length) return;
    // The chunk that the line is a part of may be used again.
    this.found.push({ line: this.lineNumber, bytes: bytes === undefined ? undefined : Buffer.from(bytes) });
  }
}

class YamlDocuments extends ByLines {
  readonly #document = new Kept();
  #line = 0;
  #hasMarker = false;
  #hasContent = false;
  #hasDirective = false;

  override end(): Piece[] {
    // The last line comes first, if it has no line end.
    const pieces = super.end();
    this.#endDocument();
    return [...pieces, ...super.end()];
  }

  protected override takeEmpty(lineFeeds: Buffer): void {
    if (this.#document.length > 0) this.#document.add(lineFeeds);
  }

  protected override take(bytes: Buffer | undefined): void {
    // A marker is one wherever it stands at the beginning of a line: YAML allows it in no text and in no list.
    if (bytes !== undefined && isMarker(bytes, endMarker)) {
      this.#endDocument();
      return;
    }
    const isBegin = bytes !== undefined && isMarker(bytes, marker);
    if (isBegin && (this.#hasMarker || this.#hasContent)) this.#endDocument();
    const content = bytes === undefined || hasContent(isBegin ? bytes.subarray(marker.length) : bytes);
    const isDirective = bytes?.[0] === percent && !this.#hasMarker && !this.#hasContent;
    if (this.#document.length === 0) {
      if (!content && !isBegin) return;
      this.#line = this.lineNumber;
    }
    if (isBegin) this.#hasMarker = true;
    if (isDirective) this.#hasDirective = true;
    else if (content) this.#hasContent = true;
    this.#document.add(bytes ?? tooLong);
    this.#document.add(lineEnd);
  }

  /** A document without content is none: many tools write a marker before the first document and after the last one. */
  #endDocument(): void {
    const isDocument = this.#hasContent || (this.#hasDirective && !this.#hasMarker);
    const bytes = this.#document.take();
    if (isDocument) this.found.push({ line: this.#line, bytes });
    this.#hasMarker = false;
    this.#hasContent = false;
    this.#hasDirective = false;
  }
}

const lineEnd = Buffer.from("\n");
/** In place of a line that was dropped because of its length. */
const tooLong = Buffer.alloc(maxBodyBytes + 1);

function isMarker(line: Buffer, mark: Buffer): boolean {
  return line.subarray(0, mark.length).equals(mark) && (line.length === mark.length || isSpace(line[mark.length]));
}

/** Whether a line has more than spaces and a comment. */
function hasContent(line: Buffer): boolean {
  const begin = beginOf(line);
  return begin < line.length && line[begin] !== hash;
}

/** The index of the first byte that is no space. */
function beginOf(line: Buffer): number {
  let i = 0;
  while (i < line.length && isSpace(line[i])) i += 1;
  return i;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 32 || byte === 9 || byte === 13;
}
