// The memory that bodies take while they arrive, and large ones until they are stored. A body that arrives slowly, or never ends, is in nobody's
// way: when the memory is used up, whoever has the most of it gives way to whoever needs less.

import type { Readable } from "node:stream";
import { ApiError } from "../errors/api-error.ts";
import { type Taken, TakenSizes } from "../limits/who-gives-way.ts";
import { maxManyBytesHeld, maxManyBytesHeldByApp } from "./bounds.ts";

export interface BodyKind {
  readonly mostBytes: number;
  /** What a client is told whose body is larger. */
  readonly tooLarge: string;
  /** The bytes of memory for each byte that has come. */
  readonly bytesForEach: number;
  /** What it is counted as before more of it has come: what it is compared with is in memory, too. */
  readonly leastBytes: number;
}

/** The app whose documents a body has, and who sends it. */
export type Sender = Pick<Taken, "app" | "name">;

interface Account {
  /** Without those that stay. */
  readonly taken: TakenSizes<HeldBody>;
  bytes: number;
  readonly bytesOfApps: Map<string, number>;
}

const joinedAtOnce = 128;
const bytesOfTurn = 32_768;

export class BodiesHeld {
  readonly #account: Account = { taken: new TakenSizes(), bytes: 0, bytesOfApps: new Map() };

  /**
   * @param sender one app's bodies leave room for another's
   * @throws ApiError bodies-busy
   */
  begin(sender: Sender, kind: BodyKind): HeldBody {
    const body = new HeldBody(this.#account, sender, kind);
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
  readonly #account: Account;
  readonly #kind: BodyKind;
  #size = 0;
  #received = 0;
  #stays = false;
  #hasEnded = false;
  #refusal: ApiError | undefined;
  readonly #givenWay = Promise.withResolvers<never>();

  constructor(account: Account, { app, name }: Sender, kind: BodyKind) {
    this.app = app;
    this.name = name;
    this.#account = account;
    this.#kind = kind;
    // Nobody may be waiting for the body when it gives way.
    this.#givenWay.promise.catch(() => undefined);
  }

  /** The memory that it is counted with, in bytes. */
  get size(): number {
    return this.#size;
  }

  /** Returns what comes of the stream, and counts it. The connection stays open for an answer. Rejects as `add` throws. */
  async *chunks(stream: Readable): AsyncGenerator<Buffer> {
    for await (const chunk of stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      this.add(chunk.length);
      yield chunk;
    }
  }

  /**
   * Returns all that comes of the stream. Rejects as `untilGivenWay` and the turns do.
   * @param ownTurn is called now and then, and resolves when more may be read: many bodies may come at once
   */
  async whole(stream: Readable, ownTurn: () => Promise<void>): Promise<Buffer> {
    const pieces: Buffer[] = [];
    // A chunk of some bytes takes several times its length.
    let chunks: Buffer[] = [];
    let nextTurnAt = bytesOfTurn;
    for await (const chunk of this.untilGivenWay(this.chunks(stream))) {
      if (this.#received >= nextTurnAt) {
        nextTurnAt = this.#received + bytesOfTurn;
        await this.orGivenWay(ownTurn());
      }
      if (chunks.push(chunk) < joinedAtOnce) continue;
      pieces.push(Buffer.concat(chunks));
      chunks = [];
    }
    return Buffer.concat([...pieces, ...chunks]);
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

  /** Resolves as the step does. Rejects at once when the body gives way. */
  async orGivenWay(step: Promise<void>): Promise<void> {
    this.check();
    await Promise.race([step, this.#givenWay.promise]);
  }

  /** @throws ApiError body-too-large, bodies-busy */
  add(bytes: number): void {
    this.check();
    const { mostBytes, tooLarge, bytesForEach, leastBytes } = this.#kind;
    this.#received += bytes;
    if (this.#received > mostBytes) throw new ApiError("body-too-large", tooLarge);
    this.#count(Math.max(leastBytes, this.#received * bytesForEach));
    for (let crowd = this.#crowd(); crowd !== undefined; crowd = this.#crowd()) {
      const most = this.#account.taken.whoGivesWay(this, 0, crowd);
      if (most === undefined) throw busy("Other bodies take the memory that there is for them. Nothing was stored");
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
    if (!this.#stays) this.#account.taken.change(this, this, -this.#size);
    this.#stays = true;
  }

  /** To be called when nothing of the body is in memory any more. */
  end(): void {
    this.#count(0);
    this.#hasEnded = true;
  }

  #count(size: number): void {
    if (this.#hasEnded) return;
    const { taken, bytesOfApps } = this.#account;
    const more = size - this.#size;
    this.#size = size;
    if (!this.#stays) taken.change(this, this, more);
    this.#account.bytes += more;
    const ofApp = (bytesOfApps.get(this.app) ?? 0) + more;
    if (ofApp > 0) bytesOfApps.set(this.app, ofApp);
    else bytesOfApps.delete(this.app);
  }

  /** @returns the bodies that have more than they may together: those of the app, or all; undefined if there is room */
  #crowd(): "own" | "all" | undefined {
    const { bytes, bytesOfApps } = this.#account;
    if ((bytesOfApps.get(this.app) ?? 0) > maxManyBytesHeldByApp) return "own";
    return bytes > maxManyBytesHeld ? "all" : undefined;
  }

  #giveWay(): void {
    this.end();
    this.#refusal = busy("The body had the most of the memory for bodies, and gave way to another one: send it again");
    this.#givenWay.reject(this.#refusal);
  }
}

function busy(why: string): ApiError {
  return new ApiError("bodies-busy", `${why}.`, {}, { "retry-after": "5" });
}
