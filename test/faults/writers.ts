// Writers who put policies at control planes all the time, note every answer, and afterwards compare what is stored with it.

import { setTimeout as sleep } from "node:timers/promises";
import { atLeast, atMost, type Fact, fact } from "../fixtures/measures/fact.ts";
import type { Plane } from "../fixtures/servers/plane.ts";
import type { TwoPlanes } from "./two-planes.ts";

/** One put, and its answer. */
export interface Put {
  readonly plane: Plane;
  readonly name: string;
  /** Is the quota and in the description of the document: half of one would show. */
  readonly number: number;
  /** 0: no answer came, because the connection broke. */
  readonly status: number;
  /** Of an answer that says that it is stored. */
  readonly revision: number | undefined;
  readonly code: string | undefined;
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
}

/** After an answer that nothing is stored, a client waits before it tries again. */
const pauseMs = 50;
const pathOf = (name: string) => `/written/${name}`;

export class Writers {
  readonly puts: Put[] = [];
  readonly #running: Promise<void>[] = [];
  #stopping = false;

  /** Starts writers, each with a policy of its own. */
  start(plane: Plane, count: number): void {
    for (let i = 0; i < count; i++) this.#running.push(this.#write(plane, `written-${this.#running.length}`));
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#running);
  }

  async #write(plane: Plane, name: string): Promise<void> {
    for (let number = 1; !this.#stopping; number++) {
      const sentAtMs = performance.now();
      const answer = await plane
        .call("PUT", `/apps/default/policies/${name}`, documentOf(name, number))
        .catch(() => undefined);
      const status = answer?.status ?? 0;
      const isStored = status === 200 || status === 201;
      this.puts.push({
        plane,
        name,
        number,
        status,
        revision: isStored ? answer?.body.revision : undefined,
        code: isStored ? undefined : answer?.body.code,
        sentAtMs,
        answeredAtMs: performance.now(),
      });
      if (!isStored) await sleep(pauseMs);
    }
  }

  /** @returns the puts that were sent and answered between these moments */
  between(fromMs: number, toMs: number): Put[] {
    return this.puts.filter(({ sentAtMs, answeredAtMs }) => sentAtMs >= fromMs && answeredAtMs <= toMs);
  }

  /** Compares what is stored, and what the gateways have, with the answers. Call it when nobody writes any more. */
  async facts(planes: TwoPlanes): Promise<Fact[]> {
    const rows = await planes.query("select number, app, policy from revisions order by number");
    const policyOf = new Map(rows.map(({ number, policy }) => [Number(number), policy]));
    const numbers = [...policyOf.keys()];
    const stored = this.puts.filter(({ revision }) => revision !== undefined);
    const lost = stored.filter(({ name, revision }) => policyOf.get(revision as number) !== name);
    const gaps = numbers.filter((number, i) => i > 0 && number !== (numbers[i - 1] as number) + 1).length;
    const { half, older, wrongAtGateways } = await this.#compare(planes);
    return [
      atLeast("changes that were answered as stored", 10, stored.length),
      atMost("of these, not in the history", 0, lost.length),
      fact(
        "each has a revision of its own",
        "yes",
        new Set(stored.map(({ revision }) => revision)).size === stored.length ? "yes" : "no",
        new Set(stored.map(({ revision }) => revision)).size === stored.length,
      ),
      atMost("policies that are older than their last answer", 0, older),
      atMost("policies of which only a part is stored", 0, half),
      atMost(`gaps in ${numbers.length} revisions`, 0, gaps),
      atMost("gateways' policies that are not the stored ones", 0, wrongAtGateways),
    ];
  }

  async #compare(planes: TwoPlanes): Promise<{ half: number; older: number; wrongAtGateways: number }> {
    let [half, older, wrongAtGateways] = [0, 0, 0];
    for (const [name, puts] of Map.groupBy(this.puts, (put) => put.name)) {
      const lastStored = Math.max(0, ...puts.filter((put) => put.revision !== undefined).map((put) => put.number));
      const read = JSON.parse((await planes.api("GET", `/apps/default/policies/${name}`)).body);
      const number = read.limits?.[0]?.quota ?? 0;
      if (number < lastStored || number > (puts.at(-1) as Put).number) older += 1;
      const expected = documentOf(name, number);
      if (number > 0 && read.description !== expected.description) half += 1;
      wrongAtGateways += (await planes.limitsAt(pathOf(name))).filter((limit) => limit !== number).length;
    }
    return { half, older, wrongAtGateways };
  }
}

function documentOf(name: string, number: number) {
  return {
    description: `number ${number}`,
    match: { paths: [pathOf(name)] },
    limits: [{ algorithm: "fixed-window", quota: number, window: "366d" }],
  };
}
