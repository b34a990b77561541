// Reads YAML in a separate thread, so that no text delays other requests. A text that takes too long is given up, and its
// thread is ended. A client that sends many texts waits behind its own: apps take turns, and so do the tokens of each app.

import { Worker } from "node:worker_threads";
import { ApiError } from "../errors/api-error.ts";
import { FairLine, type Waiter } from "./fair-line.ts";
import type { YamlReading } from "./read-yaml.ts";
import type { WorkerMessage } from "./yaml-worker.ts";

/** Ten times what a policy of 256 KiB takes, because the machine may be busy. */
export const defaultYamlDeadlineMs = 5_000;

/** A thread that has had nothing to read for this long is ended, because it keeps the memory that its largest text took. */
const idleMs = 10_000;

interface Waiting {
  readonly text: string;
  readonly resolve: (value: unknown) => void;
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
   * @param waiter the token, and its app, that takes turns with others
   * @returns the value of the text, as JSON would have it; rejects with ApiError malformed-body, yaml-busy
   */
  read(text: string, waiter: Waiter): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const detail = "Too many YAML bodies wait to be read. Send fewer at once, or JSON.";
      const refused = this.#queue.add(waiter, { text, resolve, reject });
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
    worker.postMessage(waiting.text);
  }

  /**
   * Starts the deadline when the thread begins to read, so that a slow start of the thread does not count against the text.
   */
  #begun(): void {
    this.#timer = setTimeout(() => {
      void this.#giveUp();
      this.#end({ refusal: `it takes longer than ${this.#deadlineMs} ms to read; send JSON, or less` });
    }, this.#deadlineMs);
  }

  #start(): Worker {
    const worker = new Worker(new URL("./yaml-worker.ts", import.meta.url), {
      // The thread gets nothing of this process: no debugger options and no tokens.
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 32 },
    });
    worker.unref();
    worker.on("message", (message: WorkerMessage) => (message === "begun" ? this.#begun() : this.#end(message)));
    worker.on("error", (error: NodeJS.ErrnoException) => {
      if (this.#worker === worker) this.#worker = undefined;
      const isTooLarge = error.code === "ERR_WORKER_OUT_OF_MEMORY";
      this.#end(isTooLarge ? { refusal: "it takes too much memory to read; send JSON, or less" } : error);
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

  #end(reading: YamlReading | Error): void {
    const ended = this.#current;
    this.#current = undefined;
    if (reading instanceof Error) ended?.reject(reading);
    else if ("json" in reading) ended?.resolve(JSON.parse(reading.json));
    else ended?.reject(new ApiError("malformed-body", `The body is not YAML as it is read here: ${reading.refusal}.`));
    this.#next();
  }
}
