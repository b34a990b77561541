// A build is for every account of the machine, whoever runs it first.

import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";

const directory = mkdtempSync(join(tmpdir(), "sluice-build-once-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

it("can be read by everybody, also where files are private by default", async () => {
  const builder = join(directory, "builder.mjs");
  const dist = join(directory, "dist");
  writeFileSync(
    builder,
    `import { mkdirSync, writeFileSync } from "node:fs";
     mkdirSync(${JSON.stringify(dist)});
     writeFileSync(${JSON.stringify(join(dist, "built"))}, "");`,
  );
  const build = { what: "example", builder, dist, outputs: ["built"], sources: ["package.json"] };
  const module = resolve(import.meta.dirname, "../../launch/build-once.ts");
  const program = `import { buildOnce } from ${JSON.stringify(module)}; await buildOnce(${JSON.stringify(build)});`;
  await promisify(execFile)("/bin/sh", [
    ...["-c", 'umask 077 && exec "$0" "$@"', process.execPath],
    ...["--input-type=module", "--eval", program],
  ]);
  const modes = ["", ...readdirSync(dist)].map((file) => [file, (statSync(join(dist, file)).mode & 0o777).toString(8)]);
  expect(modes).toEqual([
    ["", "755"],
    [".sluice-build", "644"],
    ["built", "644"],
  ]);
});
