// Tries a request at every policy of an app, for some milliseconds at a time: an app may have megabytes of policies, and the page must
// answer whoever types.

import { useEffect, useState } from "react";
import { type StoredPolicy, withTemplates } from "../../api/policy-terms.ts";
import type { ListedPolicy, Template } from "../../api/queries.ts";
import type { MadeUpRequest } from "../../trial/request.ts";
import { type Surroundings, type Trial, tryPolicy } from "../../trial/trial.ts";

export interface Tried {
  readonly name: string;
  readonly document: StoredPolicy;
  readonly trial: Trial;
}

/** What holds for all policies of the app. */
export interface TriedIn {
  readonly policies: readonly ListedPolicy[];
  readonly templates: readonly Template[];
  readonly around: Surroundings;
}

const turnMs = 8;

/**
 * @param world the same object while it has not changed
 * @param request undefined: no policy meets it
 * @returns what the last request that was tried in this world meets; undefined: none was tried yet
 */
export function useTried(world: TriedIn, request: MadeUpRequest | undefined): readonly Tried[] | undefined {
  const [last, setLast] = useState<{ readonly world: TriedIn; readonly tried: readonly Tried[] }>();
  const [failure, setFailure] = useState<{ readonly reason: unknown }>();
  // So that the page says that it failed.
  if (failure !== undefined) throw failure.reason;
  const text = JSON.stringify(request);
  useEffect(() => {
    const changed = new AbortController();
    const trying = text === undefined ? Promise.resolve([]) : tryAll(world, JSON.parse(text), changed.signal);
    void trying.then(
      (tried) => changed.signal.aborted || setLast({ world, tried }),
      (reason: unknown) => changed.signal.aborted || setFailure({ reason }),
    );
    return () => changed.abort();
  }, [world, text]);
  return last?.world === world ? last.tried : undefined;
}

/** @returns in the order in which gateways ask the policies; less if it is aborted */
export async function tryAll(
  { policies, templates, around }: TriedIn,
  request: MadeUpRequest,
  signal: AbortSignal,
): Promise<readonly Tried[]> {
  const nowMs = Date.now();
  const tried: Tried[] = [];
  let turnEndsMs = performance.now() + turnMs;
  for (const { name, document } of policies) {
    if (performance.now() >= turnEndsMs) {
      await new Promise((resolve) => setTimeout(resolve));
      if (signal.aborted) break;
      turnEndsMs = performance.now() + turnMs;
    }
    const trial = tryPolicy(withTemplates(document, templates), request, nowMs, around);
    if (trial !== undefined) tried.push({ name, document, trial });
  }
  return tried.sort((a, b) => (b.document.priority ?? 0) - (a.document.priority ?? 0) || (a.name < b.name ? -1 : 1));
}
