// Logs what a policy in shadow mode would have refused. The lines are at the level that error_log has by default and include the
// key, so that the operator sees whom the policy would affect. A flood is reduced to one line a second for each policy and
// worker, with the number of refusals that it stands for.
//
// Key values come from clients: each is cut and escaped, so that none can end the line or forge another. Credentials are logged
// only as a digest, which distinguishes them and is useless otherwise.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { KeyPart } from "../../../limiter/src/key/key-part.ts";
import { beginLine, type Quiet } from "../runtime/sparing-log.ts";
import { weakTable } from "../runtime/tables.ts";
import { policiesOf } from "../snapshot/current.ts";
import { digestOf, keyOfRequest, mostBytesOfValue } from "./key-text.ts";

/** By the policy in force, so that nothing is left of policies that are gone. */
const quiets = weakTable<CompiledPolicy, Quiet>();

/**
 * Logs that a shadow policy would have refused the current request.
 *
 * @param values of the policy's key, in its order; if absent, they are read from the request
 */
export function reportShadowRefusal(policy: CompiledPolicy, values?: readonly string[]): void {
  // An override is reported with its policy.
  const inForce = policiesOf(policy.app)[policy.name] ?? policy;
  let quiet = quiets.get(inForce);
  if (quiet === undefined) {
    quiet = { silentUntilSeconds: 0, suppressed: 0 };
    quiets.set(inForce, quiet);
  }
  const more = beginLine(quiet);
  if (more === undefined) return;
  const name = `${policy.app}/${policy.name}`;
  const key = describeKey(policy.policy.key, values ?? keyOfRequest(policy));
  ngx.log(ngx.ERR, "sluice: shadow policy would have refused: ", name, ", key: ", key, more);
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
