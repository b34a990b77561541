// One request counts once. nginx runs the access phase again when it redirects a request internally (index, try_files, error_page, ngx.exec,
// X-Accel-Redirect), and forgets ngx.ctx. So each worker notes by which policies a request was decided, until its log phase runs. In
// another location only those policies decide it that have not.
//
// The note costs next to nothing, and does not tell a request from an earlier one at the same address that ended without its log phase.
// Where nginx did redirect the request, its state tells them apart (request-state.ts). As soon as it finds that log phases are missing,
// notes are believed no longer: redirected requests then count in each location.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { HeaderLine } from "../../../limiter/src/document/on-limit.ts";
import { requestAddress } from "../runtime/lua-modules.ts";
import { keepForRequest, newRequestField, ofRequest } from "./request-state.ts";

/** What became of the request in the locations that it has come through. */
export interface DecidedBefore {
  readonly policies: CompiledPolicy[];
  /** It was sent here because it is over a limit, which its response shows. */
  isOverLimit?: boolean;
  /** What its service is told about limits that it is over. */
  marks: readonly HeaderLine[] | undefined;
}

/** By the address of a request. One policy stands for a list of it, because a list costs. */
const notes = new LuaTable<number, CompiledPolicy | CompiledPolicy[]>();
let areBelieved = true;
const decidedField = newRequestField<DecidedBefore>((_, inLogPhase) => {
  if (!inLogPhase) areBelieved = false;
});

/** Returns what was decided about the current request before nginx redirected it here; undefined if nothing was. */
export function decidedBefore(): DecidedBefore | undefined {
  const note = notes.get(requestAddress());
  return note === undefined ? undefined : recall(note);
}

/** Notes that the current request goes on, and which policies have decided it. */
export function noteDecided(policies: CompiledPolicy | CompiledPolicy[]): void {
  notes.set(requestAddress(), policies);
}

/** The same for more than policies. @returns what is known from now on */
export function remember(policies: CompiledPolicy[]): DecidedBefore {
  const known = ofRequest(decidedField);
  if (known !== undefined) return known;
  const decided: DecidedBefore = { policies, marks: undefined };
  keepForRequest(decidedField, decided);
  // The note says that there is something to recall.
  noteDecided(policies);
  return decided;
}

/** For the log phase. */
export function forgetDecided(): void {
  notes.delete(requestAddress());
}

export function wasDecidedBy({ policies }: DecidedBefore, { app, name }: CompiledPolicy): boolean {
  return policies.some((policy) => policy.name === name && policy.app === app);
}

function recall(note: CompiledPolicy | CompiledPolicy[]): DecidedBefore | undefined {
  // Otherwise an earlier request left the note.
  if (!ngx.req.is_internal()) return undefined;
  const known = ofRequest(decidedField);
  if (known !== undefined || !areBelieved) return known;
  return remember(isList(note) ? note : [note]);
}

function isList(note: CompiledPolicy | CompiledPolicy[]): note is CompiledPolicy[] {
  return (note as CompiledPolicy).app === undefined;
}
