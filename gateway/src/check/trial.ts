// Runs the init_by_lua of an operator's configuration as nginx does when it starts: in an nginx of its own, with the same modules, shared
// dicts and Lua paths, and as the same account. Its configuration has no server, and it ends before nginx would open a port, write a
// pid or make a worker. So a server that runs is not disturbed.

import { dictNames, dictSizes } from "../runtime/dict-sizes.ts";
import { readFile } from "../runtime/files.ts";
import { type Directive, written } from "./nginx-syntax.ts";
import { type Findings, luaOf } from "./phases.ts";

/** Its name is a reserved word of TypeScript. */
const modules = require("package") as {
  readonly path: string;
  searchpath(this: void, name: string, path: string): LuaMultiReturn<[file: string | undefined]>;
};

/** The operator's code sets its globals there. */
const globals = getfenv(0) as { readonly sluice?: unknown };

export interface TrialOptions {
  /** A directory for files of the trial, private to this account. */
  readonly directory: string;
  /** The file of this module. */
  readonly module: string;
  /** The command that starts nginx with the operator's prefix. */
  readonly nginx: string;
}

/** Directives that init_by_lua depends on. `env` gives values, and a module may have Lua of its own. */
const ofMain = ["load_module", "env"];
const ofHttp = ["lua_package_path", "lua_package_cpath", "lua_shared_dict", "lua_capture_error_log"];

/** With it, Sluice begins its messages. */
const ownBeginning = "sluice: ";
/** Begins the line of a report that lists the functions of the global `sluice`. */
const beginningOfFunctions = "functions: ";
/** The last line of a report that is whole. */
const endOfReport = "end";

/** What the trial has found out, if init_by_lua ran to its end. */
export interface Begun {
  /** Of the global `sluice`; undefined: there is no such global. */
  readonly functions: readonly string[] | undefined;
}

/** @returns undefined: it did not begin */
export function tryStart(
  { directory, module, nginx }: TrialOptions,
  main: readonly Directive[],
  http: readonly Directive[],
  findings: Findings,
): Begun | undefined {
  const init = luaOf(http, "init", findings);
  if (init === undefined) {
    findings.problems.push(
      'the http block: expected "init_by_lua_block { sluice = require("sluice") sluice.init() }", got none: Sluice does not start',
    );
  }
  if (init?.text === undefined) return undefined;
  writeFile(`${directory}/init.lua`, init.text);
  writeFile(`${directory}/trial.conf`, trialConfiguration(directory, module, init.place, main, http));
  os.execute(`${nginx} -e '${directory}/trial.log' -c '${directory}/trial.conf' >/dev/null 2>&1`);
  const lines = linesOf(readFile(`${directory}/report`)[0] ?? "");
  const isWhole = lines[lines.length - 1] === endOfReport;
  const functions = lines.find((line) => line.startsWith(beginningOfFunctions));
  findings.problems.push(...lines.filter((line) => line !== endOfReport && line !== functions));
  const logged = linesOf(readFile(`${directory}/trial.log`)[0] ?? "").flatMap((line) => messageOf(line) ?? []);
  // Sluice writes there what does not stop a start, such as stored policies for which a dict is too small.
  const said = logged.filter((message) => !isWhole || message.startsWith(ownBeginning));
  findings.problems.push(...said.map((message) => withoutBeginning(message)));
  if (!isWhole && said.length === 0) findings.problems.push("nginx ended while it ran init_by_lua, without a message");
  if (functions === undefined) return undefined;
  const names = functions.slice(beginningOfFunctions.length);
  return { functions: names === "" ? undefined : names.split(" ") };
}

function trialConfiguration(
  directory: string,
  module: string,
  name: string,
  main: readonly Directive[],
  http: readonly Directive[],
): string {
  const path = http.find((directive) => directive.name === "lua_package_path");
  const paths =
    path === undefined ? "the http block: lua_package_path" : `${path.place}: lua_package_path "${path.words[0]}"`;
  const declared = http.filter((directive) => directive.name === "lua_shared_dict").map(({ words }) => words[0]);
  const call = `dofile(${quoted(module)}).tryInit(${[directory, name, paths].map((text) => quoted(text)).join(", ")})`;
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return [
    ...main.filter((directive) => ofMain.includes(directive.name)).map((directive) => written(directive)),
    ...main.filter((directive) => directive.name === "user").map((directive) => written(directive)),
    "daemon off;",
    `pid '${directory}/trial.pid';`,
    `error_log '${directory}/trial.log' error;`,
    "events {}",
    "http {",
    "access_log off;",
    ...temporary.map((what) => `${what}_temp_path '${directory}/temporary';`),
    ...http.filter((directive) => ofHttp.includes(directive.name)).map((directive) => written(directive)),
    // A dict that is missing is a problem by itself, and must not hide others.
    ...dictNames
      .filter((dict) => !declared.includes(dict))
      .map((dict) => `lua_shared_dict ${dict} ${dictSizes[dict]};`),
    `init_by_lua_block { ${call} }`,
    "}\n",
  ].join("\n");
}

/**
 * For the trial's init_by_lua: runs the operator's, reports what is wrong, and ends nginx.
 *
 * @param name of the operator's code, in messages
 * @param paths lua_package_path and where it is
 */
export function tryInit(directory: string, name: string, paths: string): void {
  const [code, syntaxFailure] = loadstring(readFile(`${directory}/init.lua`)[0] ?? "", `=${name}`);
  const [done, failure] = code === undefined ? [false, syntaxFailure] : pcall(code);
  const problem = done ? notBegun(name) : reasonOf(linesOf(tostring(failure))[0] ?? "", name, paths);
  const found = problem ?? beginningOfFunctions + globalFunctions().join(" ");
  writeFile(`${directory}/report`, `${found}\n${endOfReport}`);
  os.exit(0);
}

/** Returns the names of what the global `sluice` has. */
function globalFunctions(): string[] {
  const { sluice } = globals;
  const names: string[] = [];
  if (type(sluice) === "table") for (const name in sluice as Record<string, unknown>) names.push(name);
  return names.sort();
}

function notBegun(name: string): string | undefined {
  // sluice.init() counts there how often nginx has read its configuration.
  const [generation] = (ngx.shared["sluice_state"] as SharedDict).get("generation");
  if (generation !== undefined) return undefined;
  return `${name}: init_by_lua ran and did not call sluice.init(): expected sluice = require("sluice") and sluice.init() in it`;
}

function reasonOf(failure: string, name: string, paths: string): string {
  if (failure.includes("module 'sluice' not found")) {
    return `${paths} leads to no sluice.lua: expected the directory that has it, as in "/usr/local/lib/sluice/?.lua;;"`;
  }
  if (failure.includes("module 'sluice_redis_scripts' not found")) {
    const [found] = modules.searchpath("sluice", modules.path);
    return `${paths} leads to no sluice_redis_scripts.lua: expected it beside ${found}`;
  }
  return failure.startsWith(ownBeginning) ? withoutBeginning(failure) : `${name}: init_by_lua fails: ${failure}`;
}

function withoutBeginning(message: string): string {
  return message.startsWith(ownBeginning) ? string.sub(message, ownBeginning.length + 1) : message;
}

/** @returns what a line of nginx's log says after its time, level, process and place in Lua; undefined: it continues another one */
function messageOf(line: string): string | undefined {
  const [message] = string.match(line, "^[%d/]+ [%d:]+ %[%a+%] [%d#]+: (.*)$");
  return message === undefined ? undefined : (string.match(message, `${ownBeginning}.*`)[0] ?? message);
}

function linesOf(text: string): string[] {
  const lines: string[] = [];
  for (const [line = ""] of string.gmatch(text, "[^\n]+")) lines.push(line);
  return lines;
}

/** A text as Lua writes it, within a block of nginx's configuration. */
function quoted(text: string): string {
  return string.format("%q", text);
}

function writeFile(path: string, text: string): void {
  const [file, failure] = io.open(path, "wb");
  if (file === undefined) error(`sluice-check: cannot write ${path}: ${failure}`, 0);
  file.write(text);
  file.close();
}
