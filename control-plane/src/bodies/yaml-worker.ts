// The thread that reads YAML: one text at a time, and says when it begins. Whoever started it ends it when one takes too
// long.

import { parentPort } from "node:worker_threads";
import { readYaml, type YamlReading } from "./read-yaml.ts";

export type WorkerMessage = "begun" | YamlReading;

parentPort?.on("message", (text: string) => {
  say("begun");
  say(readYaml(text));
});

function say(message: WorkerMessage): void {
  parentPort?.postMessage(message);
}
