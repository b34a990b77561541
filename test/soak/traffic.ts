// The traffic of a soak: each kind of limit has a load of its own, all but one over their limits. Outcomes are kept small: the
// two moments of each admission, and counts by the second of everything else.

import { check } from "../fixtures/clients/check-api-client.ts";
import type { Connections } from "../fixtures/clients/connections.ts";
import { getting, Load, type Served } from "../fixtures/clients/load.ts";
import type { Answer } from "../fixtures/clients/requests.ts";
import type { Admission } from "../fixtures/measures/bound.ts";
import { type Fleet, gatewayCount } from "./fleet.ts";

export interface Kind {
  readonly name: string;
  readonly scope: "node" | "cluster";
  /** Absent if the limit is not a token bucket. */
  readonly ratePerSecond?: number;
  /** The value of X-RateLimit-Limit if Redis has decided, or the one node that counts. */
  readonly limit: number;
  readonly offeredPerSecond: number;
  /** What gateways may hold of a leased policy in addition when Redis forgets. */
  readonly forgets: number;
  readonly policies: readonly ({ name: string } & Record<string, unknown>)[];
}

const bucket = (quota: number, burst = quota) => ({ algorithm: "token-bucket", quota, window: "1s", burst });

function kind(
  name: string,
  offeredPerSecond: number,
  ratePerSecond: number,
  more: Record<string, unknown> = {},
  burst = ratePerSecond,
): Kind {
  const scope = more["scope"] === "node" ? "node" : "cluster";
  const limits = [bucket(ratePerSecond, burst)];
  const policy = { name, scope, match: { paths: [`/${name}`] }, key: ["header:x-key"], limits, ...more };
  const forgets = more["consistency"] === "leased" ? 2 * burst : burst;
  return { name, scope, ratePerSecond, limit: burst, offeredPerSecond, forgets, policies: [policy] };
}

const slots = 4;
const randomly = (name: string, more: object) => ({
  name: `random-${name}`,
  match: { paths: ["/random"] },
  key: ["header:x-key"],
  limits: [{ ...bucket(2), window: "2s" }],
  ...more,
});

export const kinds: readonly Kind[] = [
  kind("exact", 80, 40),
  kind("leased", 90, 60, { consistency: "leased" }),
  kind("node", 40, 10, { scope: "node" }),
  kind("delayed", 25, 20, { onLimit: { action: "delay", maxDelay: "1s", maxWaiting: 50 } }, 4),
  kind("hot", 100, 10),
  kind("asked", 40, 20, { match: { paths: ["/nobody-comes-here"] } }),
  {
    name: "slots",
    scope: "cluster",
    limit: slots,
    offeredPerSecond: 30,
    forgets: slots,
    policies: [
      {
        name: "slots",
        scope: "cluster",
        match: { paths: ["/slots"] },
        limits: [{ algorithm: "concurrency", quota: slots, ttl: "5s" }],
      },
    ],
  },
  {
    name: "random",
    scope: "cluster",
    limit: 2,
    offeredPerSecond: 40,
    forgets: 2,
    policies: [
      randomly("node", { scope: "node" }),
      randomly("exact", { scope: "cluster" }),
      randomly("leased", { scope: "cluster", consistency: "leased" }),
    ],
  },
];

/** All random keys come within this part of the time, so that what is kept for each exists by then. */
const partForRandomKeys = 1 / 5;

/** @returns a policy that no request matches, or another description of one that is under load, which keeps its counters */
export function editedPolicy(edit: number): { name: string } & Record<string, unknown> {
  const loaded = kinds.flatMap(({ policies }) => policies);
  if (edit % 2 === 0) {
    const name = `beside-${(edit / 2) % 20}`;
    return { name, match: { paths: [`/${name}`] }, limits: [bucket(1 + edit)] };
  }
  return { ...(loaded[((edit - 1) / 2) % loaded.length] as { name: string }), description: `edit ${edit}` };
}

/** Counts of one second. */
export interface Second {
  sent: number;
  /** Admitted by Redis, or by the one node that counts. */
  admitted: number;
  admittedByShare: number;
  refused: number;
  /** Answers 5xx. */
  failed: number;
  unanswered: number;
}

/** When the service had a request in hand, and which limit had admitted it. */
export interface Held {
  readonly limit: number;
  readonly gateway: number;
  readonly fromMs: number;
  readonly toMs: number;
}

export class Traffic {
  readonly loads: ReadonlyMap<string, Load>;
  /** Keyed by kind and reported limit and, if a node decided, its gateway: `exact 40`, `exact 20 gateway 1`. */
  readonly admissions = new Map<string, Admission[]>();
  readonly reported = new Map<string, Set<number | undefined>>();
  readonly held: Held[] = [];
  readonly #seconds = new Map<string, Second[]>();
  readonly #beganMs: number;

  constructor(fleet: Fleet, callerToken: string, minutes: number) {
    const { gateways } = fleet.system;
    const randomly = kinds.find(({ name }) => name === "random") as Kind;
    const randomKeys = minutes * 60 * randomly.offeredPerSecond * partForRandomKeys;
    const keysOf = (kind: Kind) =>
      kind === randomly ? Array.from({ length: randomKeys }, (_, i) => `random-${i}`) : ["all"];
    const asks: Record<string, ConstructorParameters<typeof Load>[3]> = {
      asked: (url, key) => askFirst(url, callerToken, key),
      slots: (url, key, connections) =>
        this.#askForSlot(
          gateways.findIndex((gateway) => url.startsWith(gateway.url)),
          url,
          key,
          connections,
        ),
    };
    const load = (kind: Kind) => {
      const { name, offeredPerSecond } = kind;
      const urls = gateways.map(({ url, privateUrl }) => (name === "asked" ? privateUrl : `${url}/${name}`));
      return new Load(urls, offeredPerSecond, keysOf(kind), asks[name]);
    };
    this.loads = new Map(kinds.map((kind) => [kind.name, load(kind)]));
    this.#beganMs = performance.now();
    for (const each of this.loads.values()) each.start();
  }

  async stop(): Promise<void> {
    await Promise.all([...this.loads.values()].map((load) => load.stop()));
    this.digest();
  }

  secondsOf(kind: Kind): readonly Second[] {
    return this.#seconds.get(kind.name) ?? [];
  }

  get broken(): number {
    return [...this.loads.values()].reduce((sum, { broken }) => sum + broken, 0);
  }

  sumOf(field: keyof Second): number {
    return kinds.reduce((sum, kind) => sum + this.secondsOf(kind).reduce((all, second) => all + second[field], 0), 0);
  }

  /** Takes the answers that the loads have recorded, and keeps what is needed of them. */
  digest(): void {
    for (const kind of kinds) {
      for (const served of (this.loads.get(kind.name) as Load).served.splice(0)) this.#note(kind, served);
    }
  }

  #note(kind: Kind, { sentAtMs, answeredAtMs, status, limit, gateway }: Served): void {
    const second = this.#secondAt(kind, sentAtMs);
    second.sent += 1;
    if (status === 0) second.unanswered += 1;
    else if (status >= 500) second.failed += 1;
    else if (status === 429) second.refused += 1;
    else if (limit === kind.limit) second.admitted += 1;
    else second.admittedByShare += 1;
    if (status !== 200) return;
    addTo(this.reported, kind.name, () => new Set()).add(limit);
    if (kind.ratePerSecond === undefined) return;
    const byNode = kind.scope === "node" || limit !== kind.limit;
    const authority = `${kind.name} ${limit}${byNode ? ` gateway ${gateway + 1}` : ""}`;
    addTo(this.admissions, authority, () => []).push({ sentAtMs, answeredAtMs });
  }

  #secondAt({ name }: Kind, atMs: number): Second {
    const seconds = addTo(this.#seconds, name, () => []);
    const index = Math.floor((atMs - this.#beganMs) / 1000);
    while (seconds.length <= index) {
      seconds.push({ sent: 0, admitted: 0, admittedByShare: 0, refused: 0, failed: 0, unanswered: 0 });
    }
    return seconds[index] as Second;
  }

  async #askForSlot(gateway: number, url: string, key: string, connections: Connections | undefined): Promise<Answer> {
    const answer = await getting(url, key, connections);
    const { headers } = answer;
    if (answer.status === 200) {
      const [fromMs, toMs] = [Number(headers["x-began-ms"]), Number(headers["x-ended-ms"])];
      this.held.push({ gateway, limit: Number(headers["x-ratelimit-limit"]), fromMs, toMs });
    }
    return answer;
  }
}

export function authoritiesOf({ name, scope, limit }: Kind): {
  redis: string[];
  nodes: (reported: number) => string[];
} {
  const nodes = (reported: number) =>
    Array.from({ length: gatewayCount }, (_, i) => `${name} ${reported} gateway ${i + 1}`);
  return { redis: scope === "cluster" ? [`${name} ${limit}`] : [], nodes };
}

/** A caller of the check API; its answer has the form of a client's. */
async function askFirst(privateUrl: string, token: string, key: string): Promise<Answer> {
  const { allowed, results } = await check(privateUrl, { app: "default", token }, [{ policy: "asked", key: [key] }]);
  const [{ limit } = {}] = results;
  return { status: allowed ? 200 : 429, headers: { "x-ratelimit-limit": `${limit}` }, body: "" };
}

function addTo<Value>(map: Map<string, Value>, name: string, empty: () => Value): Value {
  let value = map.get(name);
  if (value === undefined) {
    value = empty();
    map.set(name, value);
  }
  return value;
}
