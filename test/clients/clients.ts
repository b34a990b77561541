// The clients that tests drive, by language.

import type { Command } from "./driver.ts";
import { goDriver } from "./go-driver.ts";
import { javaDriver } from "./java-driver.ts";
import { pythonAsyncioDriver, pythonDriver } from "./python-driver.ts";
import { typescriptDriver } from "./typescript-driver.ts";

export interface ClientUnderTest {
  readonly language: string;
  /** Builds its driver, once in this process. */
  readonly driver: () => Promise<Command>;
}

export const clients: readonly ClientUnderTest[] = [
  { language: "TypeScript", driver: typescriptDriver },
  { language: "Go", driver: goDriver },
  { language: "Java", driver: javaDriver },
  { language: "Python", driver: pythonDriver },
  { language: "Python (asyncio)", driver: pythonAsyncioDriver },
];
