// What a browser keeps of a sign-in that it has begun, as the value of a cookie: what the provider's answer is checked against, and
// where to go afterwards. It is signed with a key that all control planes have, so any of them may get the answer, and nothing
// is stored for strangers.

import { createHmac } from "node:crypto";
import { Signer } from "@fastify/cookie";
import type { Checks } from "./provider.ts";

/** How long somebody may take at the provider. */
export const mostUnderWaySeconds = 600;

export interface UnderWay extends Checks {
  /** A path of the control plane. */
  readonly returnTo: string;
}

export class SignInsUnderWay {
  readonly #signer: Signer;

  constructor(clientSecret: string) {
    const key = createHmac("sha256", clientSecret).update("sluice sign-ins under way").digest();
    this.#signer = new Signer(key);
  }

  write(underWay: UnderWay, nowMs: number): string {
    const untilMs = nowMs + mostUnderWaySeconds * 1_000;
    return this.#signer.sign(Buffer.from(JSON.stringify({ ...underWay, untilMs })).toString("base64url"));
  }

  /** @returns undefined if we did not write it, or it is too old */
  read(value: string, nowMs: number): UnderWay | undefined {
    const { valid, value: text } = this.#signer.unsign(value);
    if (!valid) return undefined;
    const { untilMs, ...underWay } = JSON.parse(Buffer.from(text, "base64url").toString()) as UnderWay & {
      untilMs: number;
    };
    return nowMs < untilMs ? underWay : undefined;
  }
}

/** Returns whether a browser that follows the text stays on this host: browsers read `//x` and `/\x` as other hosts. */
export function isLocalPath(text: string): boolean {
  return /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(text) && text.length <= 1_000;
}
