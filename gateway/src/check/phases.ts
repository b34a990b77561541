// Which Lua of a configuration calls Sluice in which phase. A phase may call it by a module of the operator's own, which is not read here. So
// a call that is missing is a warning, unless the phase has no Lua at all.

import { readFile } from "../runtime/files.ts";
import { bareCode, namesField } from "./lua-code.ts";
import type { Directive } from "./nginx-syntax.ts";

export interface Findings {
  /** What is certainly wrong. */
  readonly problems: string[];
  /** What may be meant. */
  readonly warnings: string[];
}

/** The Lua of a phase. */
export interface PhaseLua {
  /** Undefined: it is in a file that cannot be read, or whose name is known when a request comes. */
  readonly text: string | undefined;
  readonly place: string;
}

/**
 * Finds the Lua that a block has for a phase: in a block of its own, in a string or in a file.
 *
 * @param phase such as `access`
 * @param findings gets a problem if there is a file that cannot be read
 */
export function luaOf(block: readonly Directive[], phase: string, findings: Findings): PhaseLua | undefined {
  const directive = block.find(({ name }) => phaseOf(name) === phase);
  return directive === undefined ? undefined : luaIn(directive, findings);
}

const forms = ["_by_lua", "_by_lua_block", "_by_lua_file"];

/** Returns the phase whose Lua a directive has, such as `access`. Undefined: it is another directive. */
export function phaseOf(directive: string): string | undefined {
  const form = forms.find((each) => directive.endsWith(each));
  return form === undefined ? undefined : directive.slice(0, -form.length);
}

/** Returns the Lua of a directive such as access_by_lua_block. */
export function luaIn({ name, words, lua, place }: Directive, { problems }: Findings): PhaseLua {
  // The first word of set_by_lua is a variable.
  const word = words[name.startsWith("set_by_lua") ? 1 : 0] ?? "";
  if (!name.endsWith("_file")) return { text: lua ?? word, place };
  if (word.includes("$")) return { text: undefined, place };
  const [text, failure] = readFile(word.startsWith("/") ? word : ngx.config.prefix() + word);
  if (text === undefined) problems.push(`${place}: ${name}: expected a file that nginx can read, got ${failure}`);
  return { text, place };
}

function calls(lua: PhaseLua | undefined, name: string): boolean {
  return lua !== undefined && (lua.text === undefined || namesField(bareCode(lua.text), name));
}

/** @param http what the http block has */
export function findMissingCalls(http: readonly Directive[], findings: Findings): void {
  findMissingInitWorker(http, findings);
  const seen: Seen = { decides: false, said: {} };
  visit(http, {}, seen, findings, false);
  if (!seen.decides) {
    findings.warnings.push(
      'no location has "access_by_lua_block { sluice.access() }", or sluice.rewrite() in its rewrite phase: requests that pass through this nginx may go unlimited',
    );
  }
}

function findMissingInitWorker(http: readonly Directive[], findings: Findings): void {
  const lua = luaOf(http, "init_worker", findings);
  const without = "without sluice.initWorker(), this nginx receives no policies and no changes of policies";
  if (lua === undefined || (lua.text !== undefined && bareCode(lua.text) === "")) {
    const place = lua?.place ?? "the http block";
    findings.problems.push(
      `${place}: expected "init_worker_by_lua_block { sluice.initWorker() }", got none: ${without}`,
    );
  } else if (!calls(lua, "initWorker")) {
    findings.warnings.push(`${lua.place}: this Lua does not call sluice.initWorker() itself: ${without}`);
  }
}

/** The Lua that a block has of each phase: its own, or else that of the block around it. */
interface Inherited {
  readonly access?: PhaseLua | undefined;
  readonly rewrite?: PhaseLua | undefined;
  readonly log?: PhaseLua | undefined;
}

interface Seen {
  /** Whether any location calls Sluice to decide requests. */
  decides: boolean;
  /** The warnings that there are: several locations may have the Lua of one block. */
  readonly said: Record<string, true | undefined>;
}

function visit(
  block: readonly Directive[],
  around: Inherited,
  seen: Seen,
  findings: Findings,
  isLocation: boolean,
): void {
  const here: Inherited = {
    access: luaOf(block, "access", findings) ?? around.access,
    rewrite: luaOf(block, "rewrite", findings) ?? around.rewrite,
    log: luaOf(block, "log", findings) ?? around.log,
  };
  noteHidden(here, around, seen, findings);
  const servers = block.filter(({ name }) => name === "server");
  const locations = block.filter(({ name }) => name === "location");
  const conditions = block.filter(({ name }) => name === "if");
  for (const { name, inner = [] } of [...servers, ...locations, ...conditions]) {
    visit(inner, here, seen, findings, name === "location");
  }
  // Requests end in a location, also in one that has others in it, or in a server that has none.
  if (isLocation || (servers.length === 0 && locations.length === 0)) noteCalls(here, seen, findings);
}

/** Lua of a block replaces that of the blocks around it. Who writes an empty one means that. */
function noteHidden({ access, rewrite }: Inherited, around: Inherited, seen: Seen, findings: Findings): void {
  if (access === undefined || access === around.access || !calls(around.access, "access")) return;
  if (calls(access, "access") || calls(rewrite, "rewrite") || bareCode(access.text ?? "") === "") return;
  warnOnce(
    `${access.place}: this Lua takes the place of that in ${around.access?.place}, and does not call sluice.access() itself: requests go unlimited here`,
    seen,
    findings,
  );
}

function warnOnce(sentence: string, { said }: Seen, { warnings }: Findings): void {
  if (said[sentence] === undefined) warnings.push(sentence);
  said[sentence] = true;
}

function noteCalls({ access, rewrite, log }: Inherited, seen: Seen, findings: Findings): void {
  const deciding = calls(access, "access") ? access : calls(rewrite, "rewrite") ? rewrite : undefined;
  if (deciding === undefined) return;
  seen.decides = true;
  if (calls(log, "log")) return;
  const got = log === undefined ? "none" : `other Lua (${log.place})`;
  warnOnce(
    `${deciding.place}: beside this Lua, expected "log_by_lua_block { sluice.log() }", got ${got}: slots of concurrency are freed late, and responses do not cost their bytes`,
    seen,
    findings,
  );
}
