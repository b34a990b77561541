// What the log says of gateways that come and go. Who reads of a refusal or of a lost connection reads of its end too, at the same
// level. A gateway that is refused tries again every second or two, and anybody may: that is no line each time.

import type { FastifyBaseLogger } from "fastify";
import { closeCodes } from "./gateway-link.ts";

interface Refused {
  readonly address: string;
  saidAtMs: number;
  timesSince: number;
}

const sayAgainAfterMs = 60_000;
/** Of addresses and gateways, remembered: more are forgotten, oldest first. */
const mostRemembered = 1_000;

export class GatewayLog {
  readonly #log: FastifyBaseLogger;
  readonly #now: () => number;
  /** By address and reason. */
  readonly #refused = new Map<string, Refused>();
  /** Gateways whose connection was lost. */
  readonly #lost = new Set<string>();
  #stopping = false;

  constructor(log: FastifyBaseLogger, now: () => number) {
    this.#log = log;
    this.#now = now;
  }

  /** @param reason why its token is not good enough */
  refused(address: string, reason: string): void {
    const name = `${address} ${reason}`;
    const known = this.#refused.get(name);
    if (known !== undefined && this.#now() - known.saidAtMs < sayAgainAfterMs) {
      known.timesSince += 1;
      return;
    }
    forgetOldest(this.#refused);
    this.#refused.delete(name);
    this.#refused.set(name, { address, saidAtMs: this.#now(), timesSince: 0 });
    this.#log.warn(
      { address, reason, timesSince: known?.timesSince },
      "refused a gateway: its SLUICE_GATEWAY_TOKEN must be the one of this control plane",
    );
  }

  connected(gateway: string, address: string): void {
    const wasLost = this.#lost.delete(gateway);
    const wasRefused = this.#forgetRefusalsOf(address);
    if (wasLost || wasRefused) this.#log.warn({ gateway, address }, "a gateway is connected again");
    else this.#log.info({ gateway, address }, "a gateway is connected");
  }

  /** @param code as it was closed with */
  gone(gateway: string, code: number): void {
    if (this.#stopping) return;
    // It said goodbye: another worker of the same nginx opens the next connection, or nginx ends.
    if (code === closeCodes.goingAway) {
      this.#log.info({ gateway }, "a gateway has left");
      return;
    }
    forgetOldest(this.#lost);
    this.#lost.add(gateway);
    this.#log.warn({ gateway, code }, "the connection of a gateway is lost");
  }

  /** From now on, gateways go because the control plane does. */
  stop(): void {
    this.#stopping = true;
  }

  #forgetRefusalsOf(address: string): boolean {
    let found = false;
    for (const [name, refused] of this.#refused) {
      if (refused.address === address) found = this.#refused.delete(name);
    }
    return found;
  }
}

function forgetOldest(remembered: Map<string, Refused> | Set<string>): void {
  if (remembered.size < mostRemembered) return;
  const [oldest] = remembered.keys();
  if (oldest !== undefined) remembered.delete(oldest);
}
