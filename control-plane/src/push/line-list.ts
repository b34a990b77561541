// The lines of one list of a snapshot, by the names of their entries. The lines are kept in buckets, and the text of a bucket is made
// when it is needed and kept until one of its lines changes. So an edit makes a few lines anew, and a snapshot for a newcomer is put
// together from texts that are there already and never change.

const buckets = 256;
const between = Buffer.from(",\n");

export class LineList {
  readonly #lines: Map<string, string>[] = Array.from({ length: buckets }, () => new Map());
  readonly #texts: (Buffer | undefined)[] = [];
  #size = 0;
  #bytes = 0;

  get size(): number {
    return this.#size;
  }

  /** The length of all lines with what separates them, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  get(name: string): string | undefined {
    return this.#lines[bucketOf(name)]?.get(name);
  }

  /** @param line undefined: there is none any more */
  set(name: string, line: string | undefined): void {
    const place = bucketOf(name);
    const lines = this.#lines[place] as Map<string, string>;
    const before = lines.get(name);
    if (before === line) return;
    this.#texts[place] = undefined;
    if (before !== undefined) {
      this.#size -= 1;
      this.#bytes -= Buffer.byteLength(before) + between.length;
    }
    if (line === undefined) {
      lines.delete(name);
      return;
    }
    lines.set(name, line);
    this.#size += 1;
    this.#bytes += Buffer.byteLength(line) + between.length;
  }

  *names(): Iterable<string> {
    for (const lines of this.#lines) yield* lines.keys();
  }

  /** The lines as a list has them, in pieces that never change. */
  pieces(): Buffer[] {
    const pieces: Buffer[] = [];
    for (let place = 0; place < buckets; place++) {
      const lines = this.#lines[place] as Map<string, string>;
      if (lines.size === 0) continue;
      const text = this.#texts[place] ?? Buffer.from([...lines.values()].join(",\n"));
      this.#texts[place] = text;
      if (pieces.length > 0) pieces.push(between);
      pieces.push(text);
    }
    return pieces;
  }
}

function bucketOf(name: string): number {
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) | 0;
  return (hash >>> 0) % buckets;
}
