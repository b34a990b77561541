// Tells other control planes at once that there is a newer revision, and takes their word that there is one as a hint to look: what
// counts is the database. Without a channel, or while it is away, the rounds of peers.ts notice a change within 250 ms.
//
// A message says only "revision N of epoch E is there". Control planes that use the same Redis and different databases hear each
// other's epochs, and so an operator hears of the mistake.

import { setTimeout as sleep } from "node:timers/promises";
import type { Position } from "../storage/epoch.ts";

/** Carries short texts to every control plane that listens, including the sender. It may lose some. */
export interface ChangeChannel {
  /** Rejects if the text was not sent. */
  publish(text: string): Promise<void>;
  listen(onMessage: (text: string) => void): void;
  stop(): Promise<void>;
}

export interface AnnouncementsDependencies {
  readonly channel: ChangeChannel;
  /** The newest position that was read from the database. */
  current(): Position;
  /** Reads the database if it has something newer. */
  publishIfBehind(): Promise<void>;
  /**
   * How often the position is told although nothing has changed; undefined: never, because only control planes of one database
   * can hear each other.
   */
  readonly beatEveryMs: number | undefined;
  /** Called when another database's control plane begins to be heard, and with undefined when it is not heard any more. */
  onAnotherDatabase(epoch: string | undefined): void;
}

/** After a hint that was wrong, the next one waits: garbage costs no more than the rounds do. */
const wrongHintPauseMs = 250;
const mostCharacters = 500;
const mostEpochCharacters = 128;
/** Another history that is heard again so many beats later is one of another database, and no change that we have missed. */
const foreignAfterBeats = 1;
/** Another database is gone when it was not heard for so many beats. */
const goneAfterBeats = 3;

export class Announcements {
  readonly #dependencies: AnnouncementsDependencies;
  /** What was told last, by us or to us. */
  #told: Position;
  #foreign: { readonly epoch: string; readonly sinceMs: number; heardAtMs: number; reported: boolean } | undefined;
  /** The epoch of the last message of a history that is not ours. */
  #strange: string | undefined;
  #looking = false;
  #looksAgain = false;
  #stopped = false;
  #beat: NodeJS.Timeout | undefined;
  readonly #stop = new AbortController();

  constructor(dependencies: AnnouncementsDependencies) {
    this.#dependencies = dependencies;
    this.#told = dependencies.current();
  }

  start(): void {
    const { channel, beatEveryMs } = this.#dependencies;
    channel.listen((text) => this.#hear(text));
    if (beatEveryMs === undefined) return;
    this.#beat = setInterval(() => {
      this.#forgetForeign(beatEveryMs);
      this.#tell(this.#dependencies.current());
    }, beatEveryMs);
    this.#beat.unref();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#beat);
    this.#stop.abort();
    await this.#dependencies.channel.stop();
  }

  /** The epoch of another database whose control plane uses the same Redis. */
  get anotherDatabase(): string | undefined {
    return this.#foreign?.reported === true ? this.#foreign.epoch : undefined;
  }

  /** Called with each position that is read from the database: one that nobody has told yet is told. */
  noticed(position: Position): void {
    if (!isSame(this.#told, position)) this.#tell(position);
  }

  #tell({ epoch, revision }: Position): void {
    if (this.#stopped) return;
    this.#told = { epoch, revision };
    // Who does not hear of it notices in its next round.
    this.#dependencies.channel.publish(JSON.stringify({ epoch, revision })).catch(() => undefined);
  }

  #hear(text: string): void {
    const position = readPosition(text);
    if (position === undefined || this.#stopped) return;
    const current = this.#dependencies.current();
    if (position.epoch === current.epoch && position.revision <= current.revision) return;
    if (position.epoch === current.epoch) {
      // Also what we have told ourselves.
      if (isSame(this.#told, position)) return;
      this.#told = position;
    } else {
      this.#strange = position.epoch;
    }
    void this.#look();
  }

  async #look(): Promise<void> {
    const { current, publishIfBehind } = this.#dependencies;
    if (this.#looking) {
      this.#looksAgain = true;
      return;
    }
    this.#looking = true;
    do {
      this.#looksAgain = false;
      const strange = this.#strange;
      this.#strange = undefined;
      const before = current();
      // The rounds say what is wrong with the database.
      const read = await publishIfBehind().then(
        () => true,
        () => false,
      );
      if (read && strange !== undefined && current().epoch !== strange) this.#noteForeign(strange);
      if (isSame(before, current())) {
        await sleep(wrongHintPauseMs, undefined, { ref: false, signal: this.#stop.signal }).catch(() => undefined);
      }
    } while (this.#looksAgain && !this.#stopped);
    this.#looking = false;
  }

  #noteForeign(epoch: string): void {
    const { beatEveryMs, onAnotherDatabase } = this.#dependencies;
    if (beatEveryMs === undefined) return;
    const nowMs = performance.now();
    if (this.#foreign?.epoch !== epoch) {
      // One is enough to report: with several others, the first that was heard stays.
      if (this.#foreign?.reported === true) return;
      this.#foreign = { epoch, sinceMs: nowMs, heardAtMs: nowMs, reported: false };
      return;
    }
    this.#foreign.heardAtMs = nowMs;
    if (this.#foreign.reported || nowMs - this.#foreign.sinceMs < foreignAfterBeats * beatEveryMs * 0.9) return;
    this.#foreign.reported = true;
    onAnotherDatabase(epoch);
  }

  #forgetForeign(beatEveryMs: number): void {
    if (this.#foreign === undefined || performance.now() - this.#foreign.heardAtMs < goneAfterBeats * beatEveryMs)
      return;
    const { reported } = this.#foreign;
    this.#foreign = undefined;
    if (reported) this.#dependencies.onAnotherDatabase(undefined);
  }
}

/** @returns undefined if the text is not a position */
function readPosition(text: string): Position | undefined {
  if (text.length > mostCharacters) return undefined;
  try {
    const { epoch, revision } = JSON.parse(text) as Partial<Record<keyof Position, unknown>>;
    const isEpoch = typeof epoch === "string" && epoch !== "" && epoch.length <= mostEpochCharacters;
    return isEpoch && Number.isSafeInteger(revision) ? { epoch, revision: revision as number } : undefined;
  } catch {
    return undefined;
  }
}

function isSame(one: Position, other: Position): boolean {
  return one.epoch === other.epoch && one.revision === other.revision;
}
