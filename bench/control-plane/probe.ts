// Finds out by requests when the last worker of a gateway enforces an edit. It has a connection to each worker, and asks on each for
// the edited policy's limit, which the answer's header says, a millisecond after the answer before. So it learns of an edit at most
// that and the time of a request too late.
import { setTimeout as sleep } from "node:timers/promises";
import { Connections } from "../../test/fixtures/clients/connections.ts";
import { type MeasuredGateway, workerHeader } from "../measured-gateway.ts";
import { probePath } from "./fill.ts";

const limitHeader = "x-ratelimit-limit";
const pauseMs = 1;
const mostTries = 100;
const openAtOnce = 8;
const patienceMs = 120_000;

export class Probe {
  readonly #ofWorkers: readonly Connections[];

  private constructor(ofWorkers: readonly Connections[]) {
    this.#ofWorkers = ofWorkers;
  }

  /** @throws Error if a worker takes no connection */
  static async open(gateway: MeasuredGateway): Promise<Probe> {
    const workers = gateway.workers().map(String);
    const found = new Map<string, Connections>();
    for (let tries = 0; found.size < workers.length; tries++) {
      if (tries === mostTries)
        throw new Error(`expected connections to the workers ${workers}, got ${[...found.keys()]}`);
      // Workers that are idle leave each other the connections: those that come at once are spread.
      const some = Array.from({ length: openAtOnce }, () => new Connections(gateway.url));
      const answers = await Promise.all(some.map((connection) => connection.get(probePath, {})));
      for (const [i, connection] of some.entries()) {
        const worker = answers[i]?.headers[workerHeader] ?? "";
        if (workers.includes(worker) && !found.has(worker)) found.set(worker, connection);
        else connection.hangUp();
      }
    }
    return new Probe([...found.values()]);
  }

  /** @returns when each worker was first seen to enforce this limit, by `performance.now()` */
  untilEnforced(quota: number): Promise<number[]> {
    return Promise.all(this.#ofWorkers.map((connection) => firstSeen(connection, `${quota}`)));
  }

  close(): void {
    for (const connection of this.#ofWorkers) connection.hangUp();
  }
}

async function firstSeen(connection: Connections, limit: string): Promise<number> {
  const giveUpAtMs = performance.now() + patienceMs;
  for (;;) {
    const { headers } = await connection.get(probePath, {});
    const nowMs = performance.now();
    if (headers[limitHeader] === limit) return nowMs;
    if (nowMs > giveUpAtMs)
      throw new Error(`expected the limit ${limit}, got ${headers[limitHeader]} for ${patienceMs} ms`);
    await sleep(pauseMs);
  }
}
