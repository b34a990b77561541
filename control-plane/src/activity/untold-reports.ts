// Keeps what gateways have reported here until other control planes of the database are told. It waits as text, and has bounds:
// for each gateway, so that none takes the room of others, and for all, of which whoever has reported most loses what waits first.

import type { ActivityReport } from "./activity.ts";
import type { Line } from "./report-parts.ts";

/** How many lines were left out because they were too many. */
export interface LeftOut {
  traffic: number;
  keys: number;
  /** One of those who reported too much. */
  gateway: string;
}

export interface Untold {
  /** Lists of lines as JSON, each for a row of the database. */
  readonly rows: readonly string[];
  /** Undefined: nothing was. */
  readonly leftOut: LeftOut | undefined;
}

type KeyLine = ActivityReport["keys"][number];

interface Waiting {
  readonly lines: { readonly text: string; readonly isTraffic: boolean }[];
  bytes: number;
}

/** Within a second. A gateway reports 80 KB in a second at most, or some reports of workers, of which each has 131 KB at most. */
const mostOfGateway = 1_048_576;
const mostOfAll = 8_388_608;
/** Some databases refuse rows of a megabyte, and have twice the bytes of what is escaped. A line of a gateway has far fewer. */
const rowBytes = 262_144;

export class UntoldReports {
  readonly #byGateway = new Map<string, Waiting>();
  #bytes = 0;
  #leftOut: LeftOut | undefined;

  add(gateway: string, { traffic, keys }: ActivityReport): void {
    for (const line of traffic) this.#addLine(gateway, line, true);
    for (const line of keys) this.#addLine(gateway, line, false);
  }

  /** Returns what waits, and forgets it. */
  take(): Untold {
    const rows: string[] = [];
    let texts: string[] = [];
    let bytes = 0;
    for (const { text } of [...this.#byGateway.values()].flatMap(({ lines }) => lines)) {
      const more = Buffer.byteLength(text) + 1;
      if (bytes + more > rowBytes) {
        rows.push(`[${texts.join()}]`);
        texts = [];
        bytes = 0;
      }
      texts.push(text);
      bytes += more;
    }
    if (texts.length > 0) rows.push(`[${texts.join()}]`);
    const leftOut = this.#leftOut;
    this.#byGateway.clear();
    this.#bytes = 0;
    this.#leftOut = undefined;
    return { rows, leftOut };
  }

  #addLine(gateway: string, line: Line, isTraffic: boolean): void {
    const waiting = this.#byGateway.get(gateway) ?? { lines: [], bytes: 0 };
    // Nothing more is spent on a list that is left out.
    const text = waiting.bytes < mostOfGateway ? JSON.stringify(line) : "";
    const bytes = Buffer.byteLength(text);
    if (bytes >= rowBytes && "keys" in line && line.keys.length > 1) {
      for (const part of partsOf(line, Math.ceil((2 * bytes) / rowBytes))) this.#addLine(gateway, part, isTraffic);
      return;
    }
    if (bytes === 0 || bytes >= rowBytes || waiting.bytes + bytes > mostOfGateway) {
      this.#noteLeftOut(gateway, isTraffic);
      return;
    }
    waiting.lines.push({ text, isTraffic });
    waiting.bytes += bytes;
    this.#byGateway.set(gateway, waiting);
    this.#bytes += bytes;
    if (this.#bytes > mostOfAll) this.#dropLargest();
  }

  #dropLargest(): void {
    let [gateway, largest]: [string, Waiting] = ["", { lines: [], bytes: 0 }];
    for (const [other, waiting] of this.#byGateway) {
      if (waiting.bytes > largest.bytes) [gateway, largest] = [other, waiting];
    }
    this.#byGateway.delete(gateway);
    this.#bytes -= largest.bytes;
    for (const { isTraffic } of largest.lines) this.#noteLeftOut(gateway, isTraffic);
  }

  #noteLeftOut(gateway: string, isTraffic: boolean): void {
    this.#leftOut ??= { traffic: 0, keys: 0, gateway };
    this.#leftOut[isTraffic ? "traffic" : "keys"] += 1;
  }
}

/**
 * Cuts a list of keys that is too long for a row. Only the first part says how often a key may have come that is not listed; the others say
 * by how much less than that their counts may be too low, so that together they mean the same.
 */
function partsOf({ keys, counts, ...rest }: KeyLine, parts: number): KeyLine[] {
  const length = Math.ceil(keys.length / parts);
  return Array.from({ length: Math.ceil(keys.length / length) }, (_, i) => {
    const [from, end] = [i * length, (i + 1) * length];
    const part = { ...rest, keys: keys.slice(from, end), counts: counts.slice(from, end) };
    return i === 0 ? part : { ...part, error: rest.error - rest.unlisted, unlisted: 0 };
  });
}
