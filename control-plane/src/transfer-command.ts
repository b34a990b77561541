// npm run control-plane -- export FILE | import FILE: moves all that is stored to another database, of another kind perhaps.

import { createReadStream } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { type Configuration, ConfigurationError } from "./configuration.ts";
import { openDatabase } from "./storage/database.ts";
import { exportLines, importLines, TransferError } from "./storage/transfer.ts";

const usage = "npm run control-plane -- export FILE, or import FILE";

/** @returns whether the arguments name one of the two commands, which is then done */
export async function runTransfer(args: readonly string[], configuration: Configuration): Promise<boolean> {
  const [command, file, ...more] = args;
  if (command === undefined) return false;
  if ((command !== "export" && command !== "import") || file === undefined || more.length > 0) {
    throw new ConfigurationError("arguments", usage, JSON.stringify(args.join(" ")));
  }
  const { database } = await openDatabase(configuration.database);
  const progress = (table: string, rows: number) => {
    if (rows > 0) process.stderr.write(`sluice: ${table}: ${rows}\n`);
  };
  try {
    if (command === "export") {
      const target = await openNew(file);
      try {
        // `write` may write only the beginning of a line, as when the disk becomes full.
        await exportLines(database, (line) => target.appendFile(`${line}\n`), progress);
        await target.sync();
      } finally {
        await target.close();
      }
    } else {
      await importLines(database, linesOf(file), progress);
    }
  } catch (error) {
    throw reported(error, file, configuration);
  } finally {
    await database.destroy();
  }
  process.stderr.write(`sluice: ${command}ed everything ${command === "export" ? "to" : "from"} ${file}\n`);
  return true;
}

/** Rewords an error for the operator who gave the command. */
function reported(error: unknown, file: string, { database }: Configuration): unknown {
  if (error instanceof TransferError) {
    const place = typeof error.where === "number" ? `${file} line ${error.where}` : file;
    const subject = error.where === "database" ? database.variable : place;
    return new ConfigurationError(subject, error.expected, `${error.got}; nothing was changed`);
  }
  const { syscall, message } = error as NodeJS.ErrnoException;
  if (error instanceof Error && syscall !== undefined && message.includes(file)) {
    return new ConfigurationError(file, "a file that can be read or written", message);
  }
  return error;
}

/** Lines end with a line feed alone: for Node's own reader of lines, they also end at U+2028, which a text may have. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = "";
  for await (const text of createReadStream(file, "utf8")) {
    const lines = `${rest}${text}`.split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") yield rest;
}

/** The file has hashes of tokens, and is for its owner alone. It must not replace another one. */
async function openNew(file: string): Promise<FileHandle> {
  try {
    return await open(file, "wx", 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    throw new ConfigurationError(file, "a file that does not exist yet", "one that does");
  }
}
