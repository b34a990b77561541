// Reads the command lines of the project's own commands. What is not among a command's options is an error that shows its usage.

import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { SetupError } from "./step.mjs";

/** @throws SetupError with the usage if an argument is none of these options */
export function optionsFrom<const Config extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: Config,
  usage: string,
): ReturnType<typeof parseArgs<{ args: string[]; options: Config }>>["values"] {
  return readBy(() => parseArgs({ args: [...args], options }), usage).values;
}

/** Like optionsFrom, with names beside the options. @throws SetupError with the usage if an option is none of these */
export function namesAndOptionsFrom<const Config extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: Config,
  usage: string,
): ReturnType<typeof parseArgs<{ args: string[]; options: Config; allowPositionals: true }>> {
  return readBy(() => parseArgs({ args: [...args], options, allowPositionals: true }), usage);
}

function readBy<Read>(read: () => Read, usage: string): Read {
  try {
    return read();
  } catch (error) {
    throw new SetupError(`${(error as Error).message}\n${usage}`);
  }
}
