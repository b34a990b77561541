// Logs gateways that connect and disconnect. The end of a refusal or of a lost connection is logged at the same level as its
// beginning. A refused gateway tries again every second or two, and anybody can do that, so not every attempt is logged.

import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import { deltasSince } from "@sluice/limiter/protocol/push-messages.ts";
import type { FastifyBaseLogger } from "fastify";
import { MinuteLog } from "../log/minute-log.ts";
import { closeCodes } from "./gateway-link.ts";

/** The most lost gateways to remember; the oldest are forgotten first. */
const mostRemembered = 1_000;

export class GatewayLog {
  readonly #log: FastifyBaseLogger;
  /** Of refused gateways, by address and reason: anybody can be refused, from any number of addresses. */
  readonly #refusals: MinuteLog;
  /** Of what gateways send whose token was accepted. */
  readonly #warnings: MinuteLog;
  /** Gateways whose connection was lost. */
  readonly #lost = new Set<string>();
  #stopping = false;

  /** @param uptimeMs a clock that nobody sets */
  constructor(log: FastifyBaseLogger, uptimeMs: () => number) {
    this.#log = log;
    this.#refusals = new MinuteLog(
      log,
      uptimeMs,
      "more refusals of gateways, or of who wants to be one, were not logged",
    );
    this.#warnings = new MinuteLog(log, uptimeMs, "more warnings of gateways were not logged");
  }

  /** @param reason why the gateway's token is refused */
  refused(address: string, reason: string): void {
    this.#refusals.say(
      "warn",
      `${refusalsOf(address)}${reason}`,
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
    this.#warnings.say("warn", `${what} ${gateway ?? address}`, { gateway, address, ...fields }, what);
  }

  connected(gateway: string, address: string): void {
    const wasLost = this.#lost.delete(gateway);
    const wasRefused = this.#refusals.forget(refusalsOf(address));
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
    const [oldest] = this.#lost;
    if (oldest !== undefined && this.#lost.size >= mostRemembered) this.#lost.delete(oldest);
    this.#lost.add(gateway);
    this.#log.warn({ gateway, code }, "the connection of a gateway is lost");
  }

  /** From now on, connections end because the control plane stops: they are not logged. */
  stop(): void {
    this.#stopping = true;
  }
}

/** What the kinds of an address's refusals begin with. */
function refusalsOf(address: string): string {
  return `refused ${ipPrefix(address, 32, 64)} `;
}
