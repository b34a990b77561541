// Watches a gateway that is fuzzed from its machine: whether its workers live, and whether its error log shows defects.

import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "./target.ts";

/** Lines by which nginx reports that something is broken, and ngx_lua that our code is. No input may cause one. */
const defect =
  /\[(alert|emerg|crit)\]|lua entry thread aborted|runtime error|stack traceback|attempt to (?:index|call|compare|perform|concatenate|get length)|bad argument #|failed to run |published snapshot/;

export class GatewayWatch {
  readonly name: string;
  /** The directory with nginx.pid and error.log. */
  readonly directory: string;
  #readBytes = 0;
  #workers: readonly number[];

  constructor(name: string, directory: string) {
    this.name = name;
    this.directory = directory;
    this.#workers = this.workers();
  }

  /** Must be called after a start or a reload that the fuzzer made. */
  begun(): void {
    this.#workers = this.workers();
  }

  /** @throws Fault if a worker has ended or a forbidden line was logged since the last call */
  look(): void {
    const line = this.#newLines().find((one) => defect.test(one));
    if (line !== undefined) throw new Fault(`${this.name} logged: ${line.slice(0, 600)}`);
    const living = this.workers();
    const gone = this.#workers.filter((pid) => !living.includes(pid));
    if (gone.length > 0) {
      this.#workers = living;
      throw new Fault(`${this.name} lost ${gone.length} of its workers`);
    }
  }

  get pid(): number {
    return Number(readFileSync(join(this.directory, "nginx.pid"), "utf8"));
  }

  /** @returns the workers of its master, including those that are ending */
  workers(): number[] {
    const { pid } = this;
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  }

  #newLines(): string[] {
    const file = openSync(join(this.directory, "error.log"), "r");
    try {
      const { size } = fstatSync(file);
      const bytes = Buffer.alloc(Math.max(0, size - this.#readBytes));
      readSync(file, bytes, 0, bytes.length, this.#readBytes);
      this.#readBytes = size;
      return bytes.toString("latin1").split("\n");
    } finally {
      closeSync(file);
    }
  }
}
