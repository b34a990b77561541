// Orders about one counter to every connected gateway, and their answers: each counts for itself.

import type { CounterOrder, CounterReading, GatewayMessage } from "@sluice/limiter/protocol/push-messages.ts";
import type { Fleet } from "./fleet.ts";
import type { GatewayLink } from "./gateway-link.ts";

/** What became of an order at one gateway. */
export interface CounterAnswer {
  readonly gateway: string;
  /** unknown: it has no such policy, or not yet. silent: nothing came in time; the order may be carried out all the same. */
  readonly state: "done" | "unknown" | "silent";
  /** When done: what its own counters say afterwards. */
  readonly limits: readonly CounterReading[] | undefined;
}

type Message = Extract<GatewayMessage, { type: "counter" }>;

/** A gateway answers at once, but where it is just taking a large snapshot in. */
const answerWithinMs = 2_000;

export class CounterOrders {
  readonly #fleet: Fleet;
  readonly #answerWithinMs: number;
  readonly #waiting = new Map<number, { readonly link: GatewayLink; chargeDeferred(message: Message): void }>();
  #lastId = 0;

  constructor(fleet: Fleet, withinMs = answerWithinMs) {
    this.#fleet = fleet;
    this.#answerWithinMs = withinMs;
  }

  /** @returns the answer of each gateway that is connected here, by id */
  send(order: CounterOrder): Promise<CounterAnswer[]> {
    const asked = this.#fleet.connected().map(
      ({ id: gateway, link }) =>
        new Promise<CounterAnswer>((resolve) => {
          this.#lastId += 1;
          const id = this.#lastId;
          const chargeDeferred = (answer: Omit<CounterAnswer, "gateway">) => {
            clearTimeout(timer);
            this.#waiting.delete(id);
            resolve({ gateway, ...answer });
          };
          const timer = setTimeout(() => chargeDeferred({ state: "silent", limits: undefined }), this.#answerWithinMs);
          const settleBy = ({ limits: own }: Message) =>
            chargeDeferred({ state: own === undefined ? "unknown" : "done", limits: own });
          this.#waiting.set(id, { link, chargeDeferred: settleBy });
          link.send({ type: "counter", id, ...order });
        }),
    );
    return Promise.all(asked);
  }

  /** One that comes late, or that nobody asked for, is nobody's; so is one by another gateway than was asked. */
  answered(link: GatewayLink, message: Message): void {
    const asked = this.#waiting.get(message.id);
    if (asked?.link === link) asked.chargeDeferred(message);
  }
}
