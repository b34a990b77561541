// The thread that reads YAML, one text or a few small ones at a time. It reports when it begins to read; its owner ends it when a text takes too
// long.

import { parentPort } from "node:worker_threads";
import { readYaml, type YamlReading } from "./read-yaml.ts";

export interface YamlText {
  readonly text: string;
  /** The line of the body that it begins on. */
  readonly line: number;
}

export type WorkerMessage = "begun" | readonly YamlReading[];

// The library makes an Error for each fault that it finds, of which only the message is used: stack traces would cost time
// for nothing.
Error.stackTraceLimit = 0;

parentPort?.on("message", (texts: readonly YamlText[]) => {
  say("begun");
  say(texts.map(({ text, line }) => readYaml(text, line)));
});

function say(message: WorkerMessage): void {
  parentPort?.postMessage(message);
}
