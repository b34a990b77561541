// Reads YAML in a separate thread, so that no text delays other requests. A text that takes too long is given up, and its
// thread is ended. A client that sends many texts waits behind its own: owners of tokens take turns, and so do the tokens of each.

import { Worker } from "node:worker_threads";
import { ApiError } from "../errors/api-error.ts";
import { FairLine, type Waiter } from "./fair-line.ts";
import type { YamlReading } from "./read-yaml.ts";
import type { WorkerMessage, YamlText } from "./yaml-worker.ts";

/** Ten times what a policy of 256 KiB takes, because the machine may be busy. */
export const defaultYamlDeadlineMs = 5_000;

/** A thread that has had nothing to read for this long is ended, because it keeps the memory that its largest text took. */
const idleMs = 10_000;

interface Waiting {
  readonly texts: readonly YamlText[];
  readonly resolve: (readings: readonly YamlReading[]) => void;
  readonly reject: (error: Error) => void;
}

export class YamlThread {
  readonly #deadlineMs: number;
  readonly #queue = new FairLine<Waiting>();
  #current: Waiting | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Started when there is something to read. */
  #worker: Worker | undefined;

  constructor(deadlineMs: number) {
    this.#deadlineMs = deadlineMs;
  }

  /**
   * @param waiter the token, and its owner, that takes turns with others
   * @returns the value of the text, as JSON would have it; rejects with ApiError malformed-body, yaml-busy
   */
  async read(text: string, waiter: Waiter): Promise<unknown> {
    const [reading] = await this.readEach([{ text, line: 1 }], waiter);
    if (reading !== undefined && "json" in reading) return JSON.parse(reading.json);
    throw new ApiError("malformed-body", `The body is not YAML as it is read here: ${reading?.refusal}.`);
  }

  /**
   * @param texts together not larger than one large text, since they share its deadline
   * @returns in the order of the texts; rejects with ApiError yaml-busy
   */
  readEach(texts: readonly YamlText[], waiter: Waiter): Promise<readonly YamlReading[]> {
    return new Promise((resolve, reject) => {
      const detail = "Too many YAML bodies wait to be read. Send fewer at once, or JSON.";
      const refused = this.#queue.add(waiter, { texts, resolve, reject });
      refused?.reject(new ApiError("yaml-busy", detail, {}, { "retry-after": "1" }));
      this.#next();
    });
  }

  async stop(): Promise<void> {
    await this.#giveUp();
  }

  #next(): void {
    if (this.#current !== undefined) return;
    clearTimeout(this.#timer);
    const waiting = this.#queue.take();
    if (waiting === undefined) {
      this.#timer = setTimeout(() => void this.#giveUp(), idleMs).unref();
      return;
    }
    this.#current = waiting;
    const worker = this.#worker ?? this.#start();
    worker.postMessage(waiting.texts);
  }

  /**
   * Starts the deadline when the thread begins to read, so that a slow start of the thread does not count against the text.
   */
  #begun(): void {
    this.#timer = setTimeout(() => {
      void this.#giveUp();
      this.#refuse({ refusal: `it takes longer than ${this.#deadlineMs} ms to read; send JSON, or less` });
    }, this.#deadlineMs);
  }

  #start(): Worker {
    const worker = new Worker(new URL("./yaml-worker.ts", import.meta.url), {
      // The thread gets nothing of this process: no debugger options and no tokens.
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 8 },
    });
    worker.unref();
    worker.on("message", (message: WorkerMessage) => (message === "begun" ? this.#begun() : this.#end(message)));
    worker.on("error", (error: NodeJS.ErrnoException) => {
      if (this.#worker === worker) this.#worker = undefined;
      const isTooLarge = error.code === "ERR_WORKER_OUT_OF_MEMORY";
      if (isTooLarge) this.#refuse({ refusal: "it takes too much memory to read; send JSON, or less" });
      else this.#end(error);
    });
    this.#worker = worker;
    return worker;
  }

  async #giveUp(): Promise<void> {
    clearTimeout(this.#timer);
    const worker = this.#worker;
    this.#worker = undefined;
    // The thread may still send a message about a text that has been answered.
    worker?.removeAllListeners();
    worker?.on("error", () => undefined);
    await worker?.terminate();
  }

  #refuse(refusal: YamlReading): void {
    this.#end((this.#current?.texts ?? []).map(() => refusal));
  }

  #end(readings: readonly YamlReading[] | Error): void {
    const ended = this.#current;
    this.#current = undefined;
    if (readings instanceof Error) ended?.reject(readings);
    else ended?.resolve(readings);
    this.#next();
  }
}
