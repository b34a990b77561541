// Finds the nginx that runs the gateway: SLUICE_NGINX, or else OpenResty, or else nginx with Debian's Lua module loaded into
// it.
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { SetupError } from "./step.mjs";

export interface Nginx {
  readonly path: string;
  /** Modules that the configuration must load, in this order. Empty if ngx_lua is built in, as in OpenResty. */
  readonly modules: readonly string[];
}

/** The paths of Debian's dynamic modules. The development kit comes first, because the Lua module needs its symbols. */
export const debianModules = [
  "/usr/lib/nginx/modules/ndk_http_module.so",
  "/usr/lib/nginx/modules/ngx_http_lua_module.so",
];

/** Finds the binary without running it; undefined when there is none. */
export function findNginx(chosen: string | undefined): string | undefined {
  if (chosen !== undefined) return chosen.includes("/") ? chosen : findProgram(chosen);
  return findProgram("openresty") ?? findProgram("nginx");
}

/** @throws SetupError when there is no nginx that can run Lua */
export function requireNginx(chosen: string | undefined): Nginx {
  const path = findNginx(chosen);
  if (path === undefined) {
    throw new SetupError(chosen === undefined ? "no nginx found" : `SLUICE_NGINX: expected a program, got "${chosen}"`);
  }
  const about = spawnSync(path, ["-V"], { encoding: "utf8" });
  if (about.error !== undefined || about.status !== 0) {
    const why = about.error?.message ?? `exit code ${about.status}`;
    throw new SetupError(`${chosen === undefined ? "" : "SLUICE_NGINX: "}cannot run ${path} -V: ${why}`);
  }
  if (/--add-module=\S*(ngx_lua|lua-nginx-module)/.test(about.stderr)) return { path, modules: [] };
  if (debianModules.every((file) => existsSync(file))) return { path, modules: debianModules };
  throw new SetupError(`${path} cannot run Lua: expected OpenResty, or nginx with ${debianModules.join(" and ")}`);
}

/** Searches PATH and the directories of system programs, which a user's PATH may lack. */
export function findProgram(name: string): string | undefined {
  const directories = [...(process.env.PATH ?? "").split(delimiter), "/usr/local/sbin", "/usr/sbin", "/sbin"];
  return directories
    .filter((directory) => directory !== "")
    .map((directory) => join(directory, name))
    .find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
