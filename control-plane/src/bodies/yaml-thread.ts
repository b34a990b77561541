// Reads YAML in a thread of its own, so that no text keeps everybody else waiting; one that takes too long is given up
// together with its thread. Whoever sends many waits behind their own: apps take turns, and so do the tokens of each.

import { Worker } from "node:worker_threads";
import { ApiError } from "../errors/api-error.ts";
import { FairLine, type Waiter } from "./fair-line.ts";
import type { YamlReading } from "./read-yaml.ts";
import type { WorkerMessage } from "./yaml-worker.ts";

/** Ten times what 256 KiB of policy take, for a machine that has other things to do. */
export const defaultYamlDeadlineMs = 5_000;

/** A thread that has had nothing to read for so long is ended: it keeps what its largest text took. */
const idleMs = 10_000;

interface Waiting {
  readonly text: string;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

export class YamlThread {
  readonly #deadlineMs: number;
  readonly #line = new FairLine<Waiting>();
  #current: Waiting | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Made when there is something to read. */
  #worker: Worker | undefined;

  constructor(deadlineMs: number) {
    this.#deadlineMs = deadlineMs;
  }

  /**
   * @param waiter who takes turns with others
   * @returns what the text says, as JSON has it; rejects with ApiError malformed-body, yaml-busy
   */
  read(text: string, waiter: Waiter): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const detail = "Too many YAML bodies wait to be read. Send fewer at once, or JSON.";
      const refused = this.#line.add(waiter, { text, resolve, reject });
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
    const waiting = this.#line.take();
    if (waiting === undefined) {
      this.#timer = setTimeout(() => void this.#giveUp(), idleMs).unref();
      return;
    }
    this.#current = waiting;
    const worker = this.#worker ?? this.#start();
    worker.postMessage(waiting.text);
  }

  /** Counted from here, so that a thread that is slow to start costs nobody their answer. */
  #begun(): void {
    this.#timer = setTimeout(() => {
      void this.#giveUp();
      this.#end({ refusal: `it takes longer than ${this.#deadlineMs} ms to read; send JSON, or less` });
    }, this.#deadlineMs);
  }

  #start(): Worker {
    const worker = new Worker(new URL("./yaml-worker.ts", import.meta.url), {
      // Nothing of the process's own: no options of its debugger, no tokens.
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
    // The thread may still speak of a text that has been answered.
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
