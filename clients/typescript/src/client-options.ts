// The options of a client, as users write them. settings.ts checks them.

import type { SluiceEvent } from "./events.ts";

export interface ClientOptions {
  /** `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`: the gateway's private listener. */
  readonly url: string;
  /** A caller token of the app. */
  readonly token: string;
  /** The longest time from a call to its decision; 1000 by default. `acquire` and `hold` with a wait have so much more. */
  readonly deadlineMs?: number | undefined;
  /** What is decided if nobody could be asked; "allow" by default. */
  readonly onFailure?: "allow" | "deny" | undefined;
  /** Checks in one request, 1 to 100; 50 by default. */
  readonly maxBatch?: number | undefined;
  /** Requests with checks that are under way at once; 2 by default. */
  readonly maxInFlight?: number | undefined;
  /** The longest time for which a refusal is remembered; 10,000 by default, 0: not at all. */
  readonly rememberRefusalsMs?: number | undefined;
  /** How many refusals are remembered; 10,000 by default. */
  readonly maxRemembered?: number | undefined;
  /** For so long after a failure nobody is asked; 100 by default. */
  readonly retryAfterFailureMs?: number | undefined;
  /** Gets an event for each decision or error of a call. */
  readonly onEvent?: ((event: SluiceEvent) => void) | undefined;
  /** For `https` only. */
  readonly tls?: TlsOptions | undefined;
}

export interface TlsOptions {
  /** Certificates of the authorities that are trusted, in PEM, instead of those that Node knows. */
  readonly ca?: string | Buffer | readonly (string | Buffer)[] | undefined;
}
