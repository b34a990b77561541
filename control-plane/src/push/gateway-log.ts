// Logs gateways that connect and disconnect. The end of a refusal or of a lost connection is logged at the same level as its
// beginning. A refused gateway tries again every second or two, and anybody can do that, so not every attempt is logged.

import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import { deltasSince } from "@sluice/limiter/protocol/push-messages.ts";
import type { FastifyBaseLogger } from "fastify";
import { closeCodes } from "./gateway-link.ts";

interface Said {
  saidAtMs: number;
  timesSince: number;
}

const sayAgainAfterMs = 60_000;
/** So many warnings at most in that time, of all together: a stranger may come from any number of addresses. */
const mostWarnings = 100;
/** The most warnings and lost gateways to remember; the oldest are forgotten first. */
const mostRemembered = 1_000;

export class GatewayLog {
  readonly #log: FastifyBaseLogger;
  readonly #now: () => number;
  /** Of refused gateways, by address and reason. */
  readonly #refused = new Map<string, Said>();
  /** By gateway and warning. */
  readonly #warned = new Map<string, Said>();
  /** Gateways whose connection was lost. */
  readonly #lost = new Set<string>();
  /** Since when warnings are counted, how many there were, and how many more were not said. */
  #warnings = { sinceMs: 0, said: 0, unsaid: 0 };
  #stopping = false;

  constructor(log: FastifyBaseLogger, now: () => number) {
    this.#log = log;
    this.#now = now;
  }

  /** @param reason why the gateway's token is refused */
  refused(address: string, reason: string): void {
    this.#warn(
      this.#refused,
      `${ipPrefix(address, 32, 64)} ${reason}`,
      { address, reason },
      "refused a gateway: its SLUICE_GATEWAY_TOKEN must be the one that a control plane of this database was last started with",
    );
  }

  /**
   * Says what is wrong with what a gateway sent, once a minute: a gateway may send it thousands of times in a second.
   *
   * @param gateway undefined: it has not said its hello
   */
  warn(gateway: string | undefined, address: string, fields: object, what: string): void {
    this.#warn(this.#warned, `${what} ${gateway ?? address}`, { gateway, address, ...fields }, what);
  }

  #warn(said: Map<string, Said>, name: string, fields: object, what: string): void {
    const known = said.get(name);
    if (known !== undefined && this.#now() - known.saidAtMs < sayAgainAfterMs) {
      known.timesSince += 1;
      return;
    }
    if (!this.#mayWarn()) return;
    forgetOldest(said);
    said.delete(name);
    said.set(name, { saidAtMs: this.#now(), timesSince: 0 });
    this.#log.warn({ ...fields, timesSince: known?.timesSince }, what);
  }

  #mayWarn(): boolean {
    const nowMs = this.#now();
    const { sinceMs, unsaid } = this.#warnings;
    if (nowMs - sinceMs >= sayAgainAfterMs || nowMs < sinceMs) {
      this.#warnings = { sinceMs: nowMs, said: 0, unsaid: 0 };
      if (unsaid > 0)
        this.#log.warn({ unsaid }, "more warnings of gateways, or of who wants to be one, were not logged");
    }
    if (this.#warnings.said >= mostWarnings) {
      this.#warnings.unsaid += 1;
      return false;
    }
    this.#warnings.said += 1;
    return true;
  }

  connected(gateway: string, address: string): void {
    const wasLost = this.#lost.delete(gateway);
    const wasRefused = this.#forgetRefusalsOf(address);
    if (wasLost || wasRefused) this.#log.warn({ gateway, address }, "a gateway is connected again");
    else this.#log.info({ gateway, address }, "a gateway is connected");
  }

  /** With version 1, it gets a whole snapshot for every change; with version 2, no consumers. */
  speaksEarlierProtocol(gateway: string, protocol: number): void {
    this.#log.warn(
      { gateway, protocol },
      protocol < deltasSince
        ? "a gateway speaks an earlier push protocol: it gets all policies at every change, and no consumers, until it is updated"
        : "a gateway speaks an earlier push protocol: it gets no consumers until it is updated",
    );
  }

  /** @param code with which the socket was closed */
  gone(gateway: string, code: number): void {
    if (this.#stopping) return;
    // The gateway closed the socket in order: either another worker of the same nginx opens the next connection, or nginx
    // ends.
    if (code === closeCodes.goingAway) {
      this.#log.info({ gateway }, "a gateway has left");
      return;
    }
    forgetOldest(this.#lost);
    this.#lost.add(gateway);
    this.#log.warn({ gateway, code }, "the connection of a gateway is lost");
  }

  /** From now on, connections end because the control plane stops: they are not logged. */
  stop(): void {
    this.#stopping = true;
  }

  #forgetRefusalsOf(address: string): boolean {
    let found = false;
    for (const name of this.#refused.keys()) {
      if (name.startsWith(`${ipPrefix(address, 32, 64)} `)) found = this.#refused.delete(name);
    }
    return found;
  }
}

function forgetOldest(remembered: Map<string, Said> | Set<string>): void {
  if (remembered.size < mostRemembered) return;
  const [oldest] = remembered.keys();
  if (oldest !== undefined) remembered.delete(oldest);
}
