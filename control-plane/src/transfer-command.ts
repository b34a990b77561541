// npm run control-plane -- export FILE | import FILE: moves all that is stored to another database, of another kind perhaps.

import { createReadStream } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { createInterface } from "node:readline";
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
        await exportLines(database, async (line) => void (await target.write(`${line}\n`)), progress);
        await target.sync();
      } finally {
        await target.close();
      }
    } else {
      await importLines(database, linesOf(file), progress);
    }
  } catch (error) {
    if (error instanceof TransferError) throw new ConfigurationError(file, "", error.message);
    throw error;
  } finally {
    await database.destroy();
  }
  process.stderr.write(`sluice: ${command}ed\n`);
  return true;
}

/** The file is opened when the first line is asked for: its reader would lose lines that nobody waits for yet. */
async function* linesOf(file: string): AsyncGenerator<string> {
  yield* createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY });
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
