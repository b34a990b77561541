// npm run storm: the tests of what a database must never lose, with as many writes and kills as take minutes. README.md says what they
// show. Exits with 1 if anything was lost.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { projectDir } from "../../launch/settings.ts";
import { fail } from "../../launch/step.mjs";
import { requireSystemPackages } from "../../launch/system-packages.ts";

const files = ["racing-writes", "crashes"].map((name) => `test/control-plane/storage/${name}.test.ts`);
const { env } = process;

await requireSystemPackages("test", env["SLUICE_NGINX"]).catch(fail);
const vitest = join(projectDir, "node_modules/vitest/vitest.mjs");
const { status } = spawnSync(
  process.execPath,
  [vitest, "run", "--dir=test", "--project=system", "--maxWorkers=1", ...files],
  {
    cwd: projectDir,
    stdio: "inherit",
    env: {
      SLUICE_RACING_WRITES: "10000",
      SLUICE_CRASH_WRITES: "1000",
      SLUICE_CRASH_KILLS: "20",
      ...env,
      SLUICE_STORM: "1",
    },
  },
);
process.exitCode = status ?? 1;
