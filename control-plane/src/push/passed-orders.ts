// Passes orders about counters on to the other control planes of the database, which carry them out on their gateways. The orders
// and the answers are rows of the database: a control plane learns of an order when it looks at who else runs, four times a second.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { CounterOrder } from "@sluice/limiter/protocol/push-messages.ts";
import {
  answerOrder,
  type PassedOrder,
  passOrder,
  readAnswers,
  readOrders,
  readPeers,
  withdrawOrder,
} from "../storage/peers.ts";
import type { Database } from "../storage/tables.ts";
import type { CounterAnswer, CounterOrderSender } from "./counter-orders.ts";
import type { Fleet } from "./fleet.ts";

/**
 * How long an order waits for another control plane: its gateways have two seconds. One that was killed counts as running for
 * five seconds, and is waited for as long as this.
 */
const waitMs = 3_000;
const lookEveryMs = 50;

export interface PassedOrdersDependencies {
  readonly database: Database;
  readonly fleet: Fleet;
  /** Those of the gateways that are connected here. */
  readonly here: CounterOrderSender;
  /** The id of this control plane. */
  readonly id: string;
  onError(error: unknown): void;
}

export class PassedOrders implements CounterOrderSender {
  readonly #dependencies: PassedOrdersDependencies;
  /** Orders of others that were begun here, by id: none is carried out twice, even if its answer could not be stored. */
  readonly #begun = new Map<string, Promise<void>>();
  #looks: Promise<void> = Promise.resolve();

  constructor(dependencies: PassedOrdersDependencies) {
    this.#dependencies = dependencies;
  }

  /** @returns the answers of all gateways of all control planes, ordered by id */
  async send(order: CounterOrder): Promise<CounterAnswer[]> {
    const [here, elsewhere] = await Promise.all([this.#dependencies.here.send(order), this.#sendElsewhere(order)]);
    // A gateway that has just changed its control plane may have been asked twice.
    const answers = new Map<string, CounterAnswer>();
    for (const answer of [...elsewhere, ...here]) {
      const other = answers.get(answer.gateway);
      if (other === undefined || other.state === "silent") answers.set(answer.gateway, answer);
    }
    return [...answers.values()].sort((a, b) => (a.gateway < b.gateway ? -1 : 1));
  }

  /** Carries out the orders of other control planes on the gateways that are connected here. */
  carryOut(): Promise<void> {
    // One look at the orders after the other: an older list would make us forget what a newer one has begun.
    this.#looks = this.#looks.then(() => this.#carryOutNew());
    return this.#looks;
  }

  /** Waits for what is carried out now, so that the database can be closed afterwards. */
  async stop(): Promise<void> {
    await this.#looks;
    await Promise.all(this.#begun.values());
  }

  async #carryOutNew(): Promise<void> {
    const { database, id, onError } = this.#dependencies;
    try {
      const orders = await readOrders(database, id);
      for (const order of orders) {
        if (!this.#begun.has(order.id)) this.#begun.set(order.id, this.#carryOutOne(order).catch(onError));
      }
      // What is not listed any more is never listed again.
      const listed = new Set(orders.map((order) => order.id));
      for (const begun of this.#begun.keys()) if (!listed.has(begun)) this.#begun.delete(begun);
    } catch (error) {
      onError(error);
    }
  }

  async #carryOutOne({ id: orderId, document }: PassedOrder): Promise<void> {
    const { database, here, id } = this.#dependencies;
    const answers = await here.send(JSON.parse(document) as CounterOrder);
    await answerOrder(database, id, orderId, JSON.stringify(answers));
  }

  /** Gateways of a control plane that does not answer are silent. */
  async #sendElsewhere(order: CounterOrder): Promise<CounterAnswer[]> {
    const { database, fleet, id: own, onError } = this.#dependencies;
    const giveUpAtMs = performance.now() + waitMs;
    const id = randomUUID();
    const answers: CounterAnswer[] = [];
    try {
      const targets = (await readPeers(database)).filter((peer) => peer.runs && peer.id !== own).map((peer) => peer.id);
      if (targets.length > 0) {
        await passOrder(database, own, targets, { id, document: JSON.stringify(order) });
        let came = new Map<string, string>();
        while (came.size < targets.length && performance.now() < giveUpAtMs) {
          await sleep(lookEveryMs);
          came = await readAnswers(database, id);
        }
        for (const text of came.values()) answers.push(...(JSON.parse(text) as CounterAnswer[]));
        await withdrawOrder(database, id);
      }
    } catch (error) {
      onError(error);
    }
    const answered = new Set(answers.map(({ gateway }) => gateway));
    for (const gateway of fleet.idsElsewhere()) {
      if (!answered.has(gateway)) answers.push({ gateway, state: "silent", limits: undefined });
    }
    return answers;
  }
}
