// The drivers of the Python client, for threads and for asyncio, run from its sources by Debian's Python.

import { join, resolve } from "node:path";
import type { Command } from "./driver.ts";

/** Other installations have none of Debian's modules, which some tests need. */
export const python = process.env["SLUICE_PYTHON"] ?? "/usr/bin/python3";
export const pythonClient = resolve(import.meta.dirname, "../../clients/python");

/** Finds the client in its sources, and leaves nothing among them. */
export const pythonEnv = {
  PYTHONPATH: join(pythonClient, "src"),
  PYTHONDONTWRITEBYTECODE: "1",
};

const driver = (program: string) => async (): Promise<Command> => {
  const settings = Object.entries(pythonEnv).map(([name, value]) => `${name}=${value}`);
  return { command: "/usr/bin/env", args: [...settings, python, join(pythonClient, "conformance", program)] };
};

export const pythonDriver = driver("driver.py");
export const pythonAsyncioDriver = driver("driver_asyncio.py");
