// A command whose Debian packages are missing, and which may not install them, names them and stops, without a stack trace, before it builds or
// starts anything. The packages are hidden in a mount namespace, which needs root.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { projectDir } from "../../launch/settings.ts";

const { scripts } = JSON.parse(readFileSync(join(projectDir, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
};
const withPackages = [
  "start",
  "test",
  "parity",
  "mutation",
  "faults",
  "screenshots",
  "storm",
  "bench",
  "bench:check-api",
];

it.skipIf(process.getuid?.() !== 0).each(withPackages)("npm run %s", (name) => {
  const file = join(projectDir, scripts[name]?.split(" ").at(-1) as string);
  const hide = 'mount -t tmpfs none /usr/share/lua && PATH=/nowhere exec "$0" "$1"';
  const { SLUICE_NGINX: _, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync("unshare", ["--mount", "sh", "-c", hide, process.execPath, file], {
    cwd: projectDir,
    encoding: "utf8",
    env,
  });
  expect(stdout + stderr).toMatch(/^sluice: .*on Debian these packages would be installed: .*lua-resty-core [^\n]*\n$/);
  expect(status).toBe(1);
});
