// A process of another language, which answers each line with a line: the request's texts in Base64, then the readings in JSON.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { plainSpelling, type Readings, type Servers, type SpelledRequest } from "./server.ts";

interface Waiting {
  resolve(line: string): void;
  reject(error: Error): void;
}

export class LineServers implements Servers {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting: Waiting[] = [];
  #errors = "";

  constructor(command: string, args: readonly string[], cwd = `${import.meta.dirname}/servers`) {
    this.#child = spawn(command, args, { cwd });
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#errors += text;
    });
    createInterface(this.#child.stdout).on("line", (line) => this.#waiting.shift()?.resolve(line));
    const fail = (error: Error) => {
      for (const { reject } of this.#waiting.splice(0)) reject(error);
    };
    this.#child.on("error", fail);
    this.#child.stdin.on("error", fail);
    this.#child.on("close", (code) => fail(new Error(`${command} ended (${code}): ${this.#errors}`)));
  }

  async ask(requests: readonly SpelledRequest[]): Promise<Record<string, Readings>[]> {
    const lines = requests.map(() => new Promise<string>((resolve, reject) => this.#waiting.push({ resolve, reject })));
    this.#child.stdin.write(requests.map((request) => `${lineOf(request)}\n`).join(""));
    return (await Promise.all(lines)).map((line) => decodedReadings(JSON.parse(line)));
  }

  async stop(): Promise<void> {
    this.#child.stdin.end();
  }
}

function lineOf({ name, query, body, type, cookie }: SpelledRequest): string {
  return [name, query, body, type, cookie, plainSpelling(name, "1")]
    .map((text) => Buffer.from(text, "latin1").toString("base64"))
    .join("\t");
}

/** @param encoded with the texts in Base64 */
export function decodedReadings(encoded: Record<string, Record<string, string[]>>): Record<string, Readings> {
  const decoded = (text: string) => Buffer.from(text, "base64").toString("latin1");
  return Object.fromEntries(
    Object.entries(encoded).map(([server, places]) => [
      server,
      Object.fromEntries(Object.entries(places).map(([place, texts]) => [place, texts.map(decoded)])),
    ]),
  );
}
