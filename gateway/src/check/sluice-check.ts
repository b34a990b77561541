// The start-up tests that `nginx -t` leaves out, because nginx runs no Lua then. The script sluice-check runs this in an nginx, as the one
// program with Lua that every gateway has. What is certainly wrong is a problem; what a module of the operator's own may do, or the
// operator may mean, is a warning.

import { unknownSettings } from "../../../limiter/src/settings/setting-names.ts";
import { dictNames, dictSizes } from "../runtime/dict-sizes.ts";
import { readFile } from "../runtime/files.ts";
import { environmentNames } from "../runtime/system-calls.ts";
import { findWrongCalls } from "./called-functions.ts";
import { readConfiguration } from "./configuration.ts";
import type { Directive } from "./nginx-syntax.ts";
import { type Findings, findMissingCalls } from "./phases.ts";
import { type TrialOptions, tryStart } from "./trial.ts";

export { tryInit } from "./trial.ts";

/** Exit codes. nginx itself ends with 1, for example without ngx_lua. */
const good = 0;
const bad = 3;

const tokenNames = ["SLUICE_GATEWAY_TOKEN", "SLUICE_GATEWAY_TOKEN_FILE"];
const withoutToken =
  "the environment: expected SLUICE_GATEWAY_TOKEN or SLUICE_GATEWAY_TOKEN_FILE, got neither: without a token, a gateway gets no policies. Give sluice-check the variables that the service has";

/** What Sluice keeps of its own in a dict has no room in less. */
const leastDictBytes = 131_072;

/**
 * For init_by_lua: prints what is wrong with a configuration, and ends nginx.
 *
 * @param given what the option -g of nginx has
 */
export function check(options: TrialOptions, given: string): void {
  const main = readConfiguration(readFile(`${options.directory}/dump`)[0] ?? "", given);
  const http = main.find(({ name }) => name === "http")?.inner ?? [];
  const findings: Findings = { problems: [], warnings: [] };
  const set = findMisspelt(main, findings);
  if (!tokenNames.some((name) => set.includes(name))) findings.warnings.push(withoutToken);
  findDicts(http, findings);
  const begun = tryStart(options, main, http, findings);
  findMissingCalls(http, findings);
  if (begun !== undefined) findWrongCalls(http, begun.functions, findings);
  say(findings);
  os.exit(findings.problems.length === 0 ? good : bad);
}

/** @returns the names of the variables that are set, in the environment or in nginx.conf */
function findMisspelt(main: readonly Directive[], { problems }: Findings): string[] {
  const declared: string[] = [];
  const set = environmentNames();
  for (const { name, words, place } of main) {
    if (name !== "env") continue;
    const [variable = ""] = string.match(words[0] ?? "", "^[^=]*");
    declared.push(variable);
    if (variable !== words[0]) set.push(variable);
    problems.push(...unknownSettings([variable]).map((sentence) => `${place}: ${sentence}`));
  }
  const others = set.filter((name) => !declared.includes(name));
  problems.push(...unknownSettings(others).map((sentence) => `the environment: ${sentence}`));
  return set;
}

function findDicts(http: readonly Directive[], { problems }: Findings): void {
  const declared = http.filter(({ name }) => name === "lua_shared_dict");
  for (const dict of dictNames) {
    const directive = declared.find(({ words }) => words[0] === dict);
    const expected = `expected "lua_shared_dict ${dict} ${dictSizes[dict]};"`;
    if (directive === undefined) {
      problems.push(`the http block: ${expected}, got none: Sluice does not start`);
    } else if (bytesOf(directive.words[1] ?? "") < leastDictBytes) {
      problems.push(`${directive.place}: ${expected}, got ${directive.words[1]}, which is less than 128k`);
    }
  }
}

/** @param size in nginx's notation */
function bytesOf(size: string): number {
  const [digits, unit = ""] = string.match(size, "^(%d+)([kKmM]?)$");
  const count = tonumber(digits) ?? 0;
  return unit === "" ? count : count * (unit.toLowerCase() === "k" ? 1024 : 1_048_576);
}

function say({ problems, warnings }: Findings): void {
  for (const sentence of problems) io.write(`sluice-check: problem: ${sentence}\n`);
  for (const sentence of warnings) io.write(`sluice-check: warning: ${sentence}\n`);
  const counts = [problems.length, warnings.length].map((count) => string.format("%d", count));
  io.write(`sluice-check: problems: ${counts[0]}, warnings: ${counts[1]}\n`);
}
