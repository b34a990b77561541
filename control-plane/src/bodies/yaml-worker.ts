// The thread that reads YAML: one text at a time, and says when it begins. Whoever started it ends it when one takes too
// long.

import { parentPort } from "node:worker_threads";
import { readYaml, type YamlReading } from "./read-yaml.ts";

export type WorkerMessage = "begun" | YamlReading;

// The library makes an error of each fault that it finds, and all that is read of it is what it says.
Error.stackTraceLimit = 0;

parentPort?.on("message", (text: string) => {
  say("begun");
  say(readYaml(text));
});

function say(message: WorkerMessage): void {
  parentPort?.postMessage(message);
}
