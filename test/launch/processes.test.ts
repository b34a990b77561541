// Tests the message of the launcher about a part that has ended by itself.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";

const launcher = fileURLToPath(new URL("../fixtures/servers/runs-parts.ts", import.meta.url));
const message = "[emerg] worker cannot go on";
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "sluice-processes-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

it.each([
  ["was empty", 0, `echo '${message}' >> "$0"`],
  ["was larger than Node reads at once", 3 * 2 ** 30, `echo '${message}' >> "$0"`],
  ["has become larger than Node reads at once", 0, `truncate -s 3G "$0"; printf '\\n%s\\n' '${message}' >> "$0"`],
])("it shows the end of a log that %s, and ends the others in order", (_, bytes, script) => {
  const log = join(directory, "error.log");
  writeFileSync(log, "");
  truncateSync(log, bytes);
  const { stderr, status } = spawnSync(process.execPath, [launcher, log, script], { encoding: "utf8" });
  expect(stderr).toBe(`sluice: gateway ended unexpectedly (exit code 3); its last lines:\n  ${message}\n`);
  expect([readFileSync(`${log}.neighbour`, "utf8"), status]).toEqual(["ended in order\n", 1]);
});
