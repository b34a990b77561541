// Which plan a consumer has, for requests: one access to shared memory. A consumer that is not there has the default plan.

import { nameOfConsumer, separator } from "../../../limiter/src/protocol/consumer-lines.ts";
import { neverCompile } from "../runtime/jit.ts";
import { reportMissingConsumers } from "../runtime/missing-parts.ts";
import { consumersDict } from "../runtime/shared-memory.ts";
import { consumersState } from "./held.ts";

const lookEverySeconds = 0.2;

/** What was stored before this beginning is not in force. Read now and then: it changes when a gateway has begun anew. */
let validFrom = 1;
let lookedAtSeconds = 0;

/**
 * @param id the first value of a policy's key, as the request has it
 * @returns the consumer's plan, and its overrides as JSON if it has any; undefined: there is no such consumer
 */
export function consumerOf(
  app: string,
  id: string,
): LuaMultiReturn<[plan: string | undefined, overrides: string | undefined]> {
  if (consumersDict === undefined) {
    reportMissingConsumers();
    return $multi(undefined, undefined);
  }
  // By requests, not by a timer: an nginx whose policies know no consumers has nothing to do. The clock may step back.
  if (math.abs(ngx.now() - lookedAtSeconds) >= lookEverySeconds) look();
  const [value, flags] = consumersDict.get<string>(nameOfConsumer(app, id));
  if (value === undefined || (flags ?? 0) < validFrom) return $multi(undefined, undefined);
  const [tab] = string.find(value, separator, 1, true);
  if (tab === undefined) return $multi(value, undefined);
  return $multi(string.sub(value, 1, tab - 1), string.sub(value, tab + 1));
}

function look(): void {
  lookedAtSeconds = ngx.now();
  validFrom = consumersState().validFrom;
}
neverCompile(look);
