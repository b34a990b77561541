// Watches the control plane that is fuzzed, with a gateway that enforces what it accepts: every answer must be right, and its
// event loop must not stall.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { errorCatalogue } from "../../control-plane/src/errors/catalogue.ts";
import { askAndLeave } from "../fixtures/clients/requests.ts";
import { adminToken, type System } from "../fixtures/servers/system.ts";
import { untilWithin } from "../fixtures/until.ts";
import { GatewayWatch } from "./gateway-watch.ts";
import { type Answer, Client, type Sent } from "./http-client.ts";
import { Fault } from "./target.ts";

/** No input may block the event loop for longer. */
export const mostStallMs = 50;
/** How often an input is played again, alone, before it counts as a stall: other work on the machine comes and goes. */
const tries = 3;
const settleMs = 40;
/** The period of Node's own timer is part of what Node measures. */
const periodMs = 10;
const backWithinMs = 120_000;
/** Paths that random policies match. */
const lookedAt = ["/", "/api/cheap", "/v1"];
const patienceMs = 100;

interface Suspect {
  readonly replay: () => Promise<unknown>;
  readonly shown: string;
}

export class ControlPlaneWatch {
  readonly system: System;
  /** The gateway that enforces what is accepted. */
  readonly gateway: GatewayWatch;
  readonly #client: Client;
  /** The input played before: work that it started may stall later. */
  #before: Suspect | undefined;
  /** The longest stall of this run. */
  worstMs = 0;

  constructor(system: System) {
    this.system = system;
    this.gateway = new GatewayWatch("the gateway of the control plane", system.gateway.directory);
    this.#client = new Client(system.controlUrl);
  }

  close(): void {
    this.#client.close();
  }

  /** @throws Fault if the answer is a 5xx, or an error that is not in the catalogue */
  async send(sent: Sent): Promise<Answer> {
    const answer = await this.#client.send(sent);
    const { status, headers, body } = answer;
    if (status >= 500) throw new Fault(`answered ${status}: ${body.slice(0, 300)}`);
    if (status >= 400 && sent.method !== "HEAD" && sent.path.startsWith("/api/")) {
      const type = String(headers["content-type"]);
      const { code } = type.startsWith("application/problem+json") ? JSON.parse(body) : { code: undefined };
      const isValidity = status === 422 && JSON.parse(body).valid === false;
      if (!isValidity && !Object.hasOwn(errorCatalogue, String(code))) {
        throw new Fault(`answered ${status} without a code of the catalogue: ${type} ${body.slice(0, 300)}`);
      }
    }
    return answer;
  }

  /** Sends a request as an administrator of all apps, with JSON in and out. @throws if it is refused */
  async admin(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const { status, body: text } = await this.#client.send({
      method,
      path: `/api/v1${path}`,
      headers: {
        authorization: `Bearer ${adminToken}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (status >= 300) throw new Fault(`${method} ${path} by the administrator was answered ${status}: ${text}`);
    return text === "" ? {} : JSON.parse(text);
  }

  /**
   * Checks whether the event loop stalled since the last check, and if so whether it stalls again when the input is played
   * alone. Time that the machine's other processes took is no stall.
   *
   * @param shown the input as a person reads it, in case it stalls what comes after it
   * @throws Fault if it stalls each time
   */
  async lookAtStalls(replay: () => Promise<unknown>, shown: string): Promise<void> {
    const before = this.#before;
    this.#before = { replay, shown };
    if ((await this.#longestMs()) <= mostStallMs) return;
    await this.#refuseStall(replay, "it");
    if (before !== undefined) await this.#refuseStall(before.replay, `the input before it, ${before.shown},`);
  }

  /** @throws Fault if the gateway is gone, refuses what the control plane accepted, or logs a defect */
  async lookAtFleet(): Promise<void> {
    const { gateways } = (await this.admin("GET", "/gateways")) as {
      gateways: { id: string; connected: boolean; refused: object | null }[];
    };
    const own = gateways.find(({ id }) => id === this.system.gateway.id);
    if (own?.connected !== true) throw new Fault(`the gateway is not connected any more: ${JSON.stringify(own)}`);
    if (own.refused !== null) throw new Fault(`the gateway refused what was accepted: ${JSON.stringify(own.refused)}`);
    // The answer does not matter: some policies make a request wait for minutes, or answer 599.
    await Promise.all(lookedAt.map((path) => askAndLeave(this.system.gateway.url + path, patienceMs)));
    this.gateway.look();
  }

  /** @throws Fault if the control plane does not answer again, or not as before */
  async untilWell(): Promise<void> {
    this.#before = undefined;
    try {
      await untilWithin("the control plane answers", backWithinMs, async () => {
        const answer = await this.#client.send({ method: "GET", path: "/readyz" }).catch(() => undefined);
        return answer?.status === 200;
      });
    } catch {
      await this.system.killControlPlane();
      await this.system.startControlPlane();
    }
    await this.#longestMs();
  }

  /** @returns the control plane's own count of 5xx */
  async serverErrors(): Promise<number> {
    const text = await this.#metrics();
    return Number(/^sluice_control_http_requests_total\{class="5xx"\} (\S+)$/m.exec(text)?.[1] ?? 0);
  }

  async #refuseStall(replay: () => Promise<unknown>, whose: string): Promise<void> {
    const alone = await this.#alone(replay);
    this.worstMs = Math.max(this.worstMs, alone);
    if (alone <= mostStallMs) return;
    throw new Fault(`the event loop stood still for ${Math.round(alone)} ms, each time that ${whose} came`);
  }

  async #alone(play: () => Promise<unknown>): Promise<number> {
    let leastMs = Number.POSITIVE_INFINITY;
    for (let i = 0; i < tries; i++) {
      await sleep(settleMs);
      await this.#longestMs();
      const waitedBefore = this.#waitedMs();
      await play().catch(() => undefined);
      await sleep(settleMs);
      const longest = await this.#longestMs();
      leastMs = Math.min(leastMs, longest - (this.#waitedMs() - waitedBefore));
      if (leastMs <= mostStallMs) break;
    }
    return leastMs;
  }

  /** @returns the longest stall since the metrics were last read */
  async #longestMs(): Promise<number> {
    const seconds = Number(/^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(await this.#metrics())?.[1]);
    return seconds * 1000 - periodMs;
  }

  async #metrics(): Promise<string> {
    return (await this.#client.send({ method: "GET", path: "/metrics" })).body;
  }

  /** @returns how long its main thread was ready to run and did not, since it began */
  #waitedMs(): number {
    const pid = this.system.controlPlanePid;
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[1]) / 1e6;
  }
}
