// Lists of policies in order of evaluation: higher priority first, then by name, then by app. A list has each policy once.

import type { Pause } from "../basics/pause.ts";
import type { CompiledPolicy } from "../compiled/compile.ts";

export type Policies = readonly CompiledPolicy[];

/**
 * Returns the policies in order. Stretches that are already in order are merged as they are. This is done in short steps, which no
 * library's sort offers.
 */
export function inOrder(policies: Policies, pause: Pause): CompiledPolicy[] {
  let runs: CompiledPolicy[][] = [];
  let run: CompiledPolicy[] = [];
  for (const policy of policies) {
    const last = run[run.length - 1];
    if (last !== undefined && byEvaluation(last, policy) > 0) {
      runs.push(run);
      run = [];
    }
    run.push(policy);
    pause();
  }
  runs.push(run);
  while (runs.length > 1) {
    const merged: CompiledPolicy[][] = [];
    for (let i = 0; i < runs.length; i += 2) {
      merged.push(mergeRuns(runs[i] as CompiledPolicy[], runs[i + 1] ?? [], pause));
    }
    runs = merged;
  }
  return runs[0] as CompiledPolicy[];
}

function mergeRuns(a: CompiledPolicy[], b: CompiledPolicy[], pause: Pause): CompiledPolicy[] {
  if (b.length === 0) return a;
  const merged: CompiledPolicy[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const first = a[i];
    const second = b[j];
    if (second === undefined || (first !== undefined && byEvaluation(first, second) <= 0)) {
      merged.push(first as CompiledPolicy);
      i += 1;
    } else {
      merged.push(second);
      j += 1;
    }
    pause();
  }
  return merged;
}

/** Merges two lists; a policy of both is there once. May return one of them. */
export function mergeInOrder(a: Policies, b: Policies): Policies {
  if (a.length === 0) return b;
  if (b.length === 0) return a;
  const merged: CompiledPolicy[] = [];
  const lengthOfA = a.length;
  const lengthOfB = b.length;
  let i = 0;
  let j = 0;
  while (i < lengthOfA && j < lengthOfB) {
    const first = a[i] as CompiledPolicy;
    const second = b[j] as CompiledPolicy;
    const order = first === second ? 0 : byEvaluation(first, second);
    merged.push(order <= 0 ? first : second);
    if (order <= 0) i += 1;
    if (order >= 0) j += 1;
  }
  for (; i < lengthOfA; i++) merged.push(a[i] as CompiledPolicy);
  for (; j < lengthOfB; j++) merged.push(b[j] as CompiledPolicy);
  return merged;
}

/** Adds a policy, unless the list has it. */
export function addInOrder(list: CompiledPolicy[], policy: CompiledPolicy): void {
  const length = list.length;
  const place = placeOf(list, length, policy);
  if (place < length && list[place] === policy) return;
  for (let i = length; i > place; i--) list[i] = list[i - 1] as CompiledPolicy;
  list[place] = policy;
}

/** Removes a policy, if the list has it. */
export function removeInOrder(list: CompiledPolicy[], policy: CompiledPolicy): void {
  const length = list.length;
  const place = placeOf(list, length, policy);
  if (place >= length || list[place] !== policy) return;
  for (let i = place; i < length - 1; i++) list[i] = list[i + 1] as CompiledPolicy;
  list.pop();
}

/** Returns the list with a policy, unless it has it: then the list itself. */
export function withAdded(list: Policies, policy: CompiledPolicy): Policies {
  return mergeInOrder(list, [policy]);
}

/** Returns the list without a policy. */
export function withRemoved(list: Policies, policy: CompiledPolicy): Policies {
  const rest: CompiledPolicy[] = [];
  for (const other of list) if (other !== policy) rest.push(other);
  return rest;
}

/** Returns the first place whose policy does not come before this one. */
function placeOf(list: Policies, length: number, policy: CompiledPolicy): number {
  let from = 0;
  let to = length;
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    if (byEvaluation(list[middle] as CompiledPolicy, policy) < 0) from = middle + 1;
    else to = middle;
  }
  return from;
}

function byEvaluation(a: CompiledPolicy, b: CompiledPolicy): number {
  if (a.policy.priority !== b.policy.priority) return b.policy.priority - a.policy.priority;
  if (a.name !== b.name) return a.name < b.name ? -1 : 1;
  if (a.app === b.app) return 0;
  return a.app < b.app ? -1 : 1;
}
