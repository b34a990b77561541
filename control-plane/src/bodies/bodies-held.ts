// The memory that large bodies take until they are stored. A body that arrives slowly, or never ends, is in nobody's way: when the memory is used
// up, whoever has the most of it gives way to whoever needs less.

import type { Readable } from "node:stream";
import { ApiError } from "../errors/api-error.ts";
import { type Taken, whoGivesWay } from "../limits/who-gives-way.ts";
import { maxManyBytesHeld, maxManyBytesHeldByApp } from "./bounds.ts";

/** What a body is counted as before more of it has come, since what it is compared with is in memory, too. */
const leastBytes = 1_048_576;

export interface BodyKind {
  /** What the error calls the content, as in "the most for many policies". */
  readonly what: string;
  readonly mostBytes: number;
  /** The bytes of memory for each byte that has come. */
  readonly bytesForEach: number;
}

export class BodiesHeld {
  readonly #bodies = new Set<HeldBody>();

  /**
   * @param sender one app's bodies leave room for another's
   * @throws ApiError bodies-busy
   */
  begin(sender: Sender, kind: BodyKind): HeldBody {
    const body = new HeldBody(this.#bodies, sender, kind);
    this.#bodies.add(body);
    try {
      body.add(0);
    } catch (error) {
      body.end();
      throw error;
    }
    return body;
  }
}

export class HeldBody implements Taken {
  readonly app: string;
  readonly name: string;
  /** The memory that it is counted with. */
  size = 0;
  readonly #all: Set<HeldBody>;
  readonly #kind: BodyKind;
  #received = 0;
  #stays = false;
  #refusal: ApiError | undefined;
  readonly #givenWay = Promise.withResolvers<never>();

  constructor(all: Set<HeldBody>, { app, name }: Sender, kind: BodyKind) {
    this.app = app;
    this.name = name;
    this.#all = all;
    this.#kind = kind;
    // Nobody may be waiting for the body when it gives way.
    this.#givenWay.promise.catch(() => undefined);
  }

  /** Returns what comes of the stream, and counts it. The connection stays open for an answer. Rejects as `add` throws. */
  async *chunks(stream: Readable): AsyncGenerator<Buffer> {
    for await (const chunk of stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      this.add(chunk.length);
      yield chunk;
    }
  }

  /** Rejects as `untilGivenWay` does. */
  async text(stream: Readable): Promise<string> {
    const chunks: Buffer[] = [];
    for await (const chunk of this.untilGivenWay(this.chunks(stream))) chunks.push(chunk);
    return Buffer.concat(chunks).toString();
  }

  /** Returns what the source has until the body gives way: then it rejects at once, whatever the source waits for. */
  async *untilGivenWay<Item>(source: AsyncIterable<Item>): AsyncGenerator<Item> {
    const items = source[Symbol.asyncIterator]();
    try {
      for (;;) {
        this.check();
        const { done, value } = await Promise.race([items.next(), this.#givenWay.promise]);
        if (done === true) return;
        yield value;
      }
    } finally {
      // This may wait for as long as the source does.
      void items.return?.()?.catch(() => undefined);
    }
  }

  /** @throws ApiError body-too-large, bodies-busy */
  add(bytes: number): void {
    this.check();
    const { what, mostBytes, bytesForEach } = this.#kind;
    this.#received += bytes;
    this.size = Math.max(leastBytes, this.#received * bytesForEach);
    if (this.#received > mostBytes) {
      const detail = `The body is larger than ${mostBytes / 1_048_576} MiB, the most for ${what}. Nothing was stored.`;
      throw new ApiError("body-too-large", detail);
    }
    for (let crowd = this.#crowd(); crowd !== undefined; crowd = this.#crowd()) {
      const others = crowd.filter((body) => body !== this && !body.#stays);
      const most = whoGivesWay(others, this);
      if (most === undefined)
        throw busy("Other bodies take the memory that there is for large ones. Nothing was stored");
      most.#giveWay();
    }
  }

  /** @throws ApiError bodies-busy if the body has given way */
  check(): void {
    if (this.#refusal !== undefined) throw this.#refusal;
  }

  /** To be called before what cannot be broken off: the body gives way no more. @throws ApiError bodies-busy */
  stay(): void {
    this.check();
    this.#stays = true;
  }

  /** To be called when nothing of the body is in memory any more. */
  end(): void {
    this.#all.delete(this);
  }

  /** @returns the bodies that have more than they may together: those of the app, or all; undefined if there is room */
  #crowd(): HeldBody[] | undefined {
    const all = [...this.#all];
    const ofApp = all.filter(({ app }) => app === this.app);
    if (sizeOf(ofApp) > maxManyBytesHeldByApp) return ofApp;
    return sizeOf(all) > maxManyBytesHeld ? all : undefined;
  }

  #giveWay(): void {
    this.end();
    this.#refusal = busy(
      "The body had the most of the memory for large ones, and gave way to another one: send it again",
    );
    this.#givenWay.reject(this.#refusal);
  }
}

function sizeOf(bodies: readonly HeldBody[]): number {
  return bodies.reduce((sum, { size }) => sum + size, 0);
}

function busy(why: string): ApiError {
  return new ApiError("bodies-busy", `${why}.`, {}, { "retry-after": "5" });
}
