// Logs what a policy in shadow mode would have refused. The lines are at the level that error_log has by default and include the
// key, so that the operator sees whom the policy would affect. A flood is reduced to one line a second for each policy and
// worker, with the number of refusals that it stands for. A request may meet a thousand such policies: a worker writes 20 lines a
// second for all of them. If that is not enough, they take turns.
//
// Key values come from clients: each is cut and escaped, so that none can end the line or forge another. Credentials are logged
// only as a digest, which distinguishes them and is useless to whoever does not have the gateways' token.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { KeyPart } from "../../../limiter/src/key/key-part.ts";
import { beginLine, newQuiet, pauseSeconds, type Quiet } from "../runtime/sparing-log.ts";
import { weakTable } from "../runtime/tables.ts";
import { policiesOf } from "../snapshot/current.ts";
import { digestOf, mostBytesOfValue } from "./key-text.ts";

/** A worker writes so many lines in a second. */
const mostLines = 20;
/** By the policy in force, so that nothing is left of policies that are gone. */
const quiets = weakTable<CompiledPolicy, QuietPolicy>();

interface QuietPolicy extends Quiet {
  /** The end of the last second in which it found no line left. */
  withoutLineUntil: number;
}

/** Of the second that ends then: the lines that are left, and how many policies found none. */
let untilSeconds = 0;
let linesLeft = 0;
let withoutLine = 0;
/** How many found none in the second before. */
let withoutLineBefore = 0;

/**
 * Logs that a shadow policy would have refused the current request.
 *
 * @param readValues returns those of the policy's key, in its order
 */
export function reportShadowRefusal(policy: CompiledPolicy, readValues: () => readonly string[]): void {
  // An override is reported with its policy.
  const inForce = policiesOf(policy.app)[policy.name] ?? policy;
  let quiet = quiets.get(inForce);
  if (quiet === undefined) {
    quiet = { ...newQuiet(), withoutLineUntil: 0 };
    quiets.set(inForce, quiet);
  }
  const now = ngx.now();
  if (math.abs(now - quiet.wroteAtSeconds) >= pauseSeconds && !hasLine(now, quiet)) {
    quiet.suppressed += 1;
    if (quiet.withoutLineUntil !== untilSeconds) withoutLine += 1;
    quiet.withoutLineUntil = untilSeconds;
    return;
  }
  const more = beginLine(quiet);
  if (more === undefined) return;
  linesLeft -= 1;
  const name = `${policy.app}/${policy.name}`;
  const key = describeKey(policy.policy.key, readValues());
  ngx.log(ngx.ERR, "sluice: shadow policy would have refused: ", name, ", key: ", key, more, leftOut());
}

/** Returns whether this worker may write one more line now, and it is the policy's turn: those that found no line come before. */
function hasLine(now: number, { wroteAtSeconds }: Quiet): boolean {
  if (now >= untilSeconds || now < untilSeconds - 1) {
    // After a pause, nobody waits for a line.
    withoutLineBefore = now < untilSeconds + 1 ? withoutLine : 0;
    untilSeconds = now + 1;
    linesLeft = mostLines;
    withoutLine = 0;
  }
  return linesLeft > 0 && math.abs(now - wroteAtSeconds) >= pauseSeconds + withoutLineBefore / mostLines;
}

function leftOut(): string {
  return linesLeft === mostLines - 1 && withoutLineBefore > 0
    ? ` (in the second before, ${withoutLineBefore} more policies had no line)`
    : "";
}

function describeKey(key: readonly KeyPart[], values: readonly string[]): string {
  if (key.length === 0) return "none";
  const parts: string[] = [];
  for (let i = 0; i < key.length; i++) {
    const part = key[i] as KeyPart;
    const value = values[i] ?? "";
    const reported = digestOf(part, value) ?? `"${escaped(value, mostBytesOfValue)}"`;
    parts.push(`${nameOf(part)} ${reported}`);
  }
  return parts.join(", ");
}

function nameOf(part: KeyPart): string {
  return "name" in part ? `${part.source}:${escaped(part.name, mostBytesOfValue)}` : part.source;
}

/** Keeps printable ASCII other than quotes and backslashes. */
function escaped(text: string, mostBytes: number): string {
  const [safe] = string.gsub(string.sub(text, 1, mostBytes), "[^ !#-Z%[%]^-~]", (byte) =>
    string.format("\\x%02x", string.byte(byte)),
  );
  return text.length > mostBytes ? `${safe}...` : safe;
}
