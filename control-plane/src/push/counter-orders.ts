// Sends orders about one counter to every connected gateway, and collects their answers: each gateway counts for itself.

import type { CounterOrder, CounterReading, GatewayMessage } from "@sluice/limiter/protocol/push-messages.ts";
import type { Fleet } from "./fleet.ts";
import type { GatewayLink } from "./gateway-link.ts";

/** The result of an order at one gateway. */
export interface CounterAnswer {
  readonly gateway: string;
  /**
   * unknown: the gateway has no such policy, or not yet. silent: no answer came in time, but the order may still be carried
   * out.
   */
  readonly state: "done" | "unknown" | "silent";
  /** The gateway's own counters after the order; only present for `done`. */
  readonly limits: readonly CounterReading[] | undefined;
}

export interface CounterOrderSender {
  /** @returns the answers of gateways, ordered by id */
  send(order: CounterOrder): Promise<CounterAnswer[]>;
}

type Message = Extract<GatewayMessage, { type: "counter" }>;

/** A gateway answers at once, except while it loads a large snapshot. */
const answerWithinMs = 2_000;

export class CounterOrders implements CounterOrderSender {
  readonly #fleet: Fleet;
  readonly #answerWithinMs: number;
  readonly #waiting = new Map<number, { readonly link: GatewayLink; onAnswer(message: Message): void }>();
  #lastId = 0;

  constructor(fleet: Fleet, withinMs = answerWithinMs) {
    this.#fleet = fleet;
    this.#answerWithinMs = withinMs;
  }

  /** @returns the answers of all gateways that are connected here, ordered by id */
  send(order: CounterOrder): Promise<CounterAnswer[]> {
    const asked = this.#fleet.connected().map(
      ({ id: gateway, link }) =>
        new Promise<CounterAnswer>((resolve) => {
          this.#lastId += 1;
          const id = this.#lastId;
          const finish = (answer: Omit<CounterAnswer, "gateway">) => {
            clearTimeout(timer);
            this.#waiting.delete(id);
            resolve({ gateway, ...answer });
          };
          const timer = setTimeout(() => finish({ state: "silent", limits: undefined }), this.#answerWithinMs);
          const onAnswer = ({ limits: own }: Message) =>
            finish({ state: own === undefined ? "unknown" : "done", limits: own });
          this.#waiting.set(id, { link, onAnswer });
          link.send({ type: "counter", id, ...order });
        }),
    );
    return Promise.all(asked);
  }

  /**
   * Ignores an answer that comes late, that belongs to no order, or that comes from another gateway than the one that got
   * the order.
   */
  answered(link: GatewayLink, message: Message): void {
    const asked = this.#waiting.get(message.id);
    if (asked?.link === link) asked.onAnswer(message);
  }
}
