// The thread that reads YAML, one text at a time. It reports when it begins to read; its owner ends it when a text takes too
// long.

import { parentPort } from "node:worker_threads";
import { readYaml, type YamlReading } from "./read-yaml.ts";

export type WorkerMessage = "begun" | YamlReading;

// The library makes an Error for each fault that it finds, of which only the message is used: stack traces would cost time
// for nothing.
Error.stackTraceLimit = 0;

parentPort?.on("message", (text: string) => {
  say("begun");
  say(readYaml(text));
});

function say(message: WorkerMessage): void {
  parentPort?.postMessage(message);
}
