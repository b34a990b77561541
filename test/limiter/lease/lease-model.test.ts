// Plays the lease protocol in worlds of many gateways with losses, doubled and late messages, deaths and drifting clocks:
// whatever happens, no interval has more than the limit. A protocol that is deliberately broken must be detected.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import type { Limit } from "../../../limiter/src/algorithms/limit.ts";
import type { LeaseAnswer } from "../../../limiter/src/lease/ledger.ts";
import { Gateway, type Product, Redis, seeded, World } from "./lease-world.ts";

const seed = 20_231_114;
const stepsPerWorld = 2_000;
const limiter = resolve(import.meta.dirname, "../../../limiter");

async function product(directory: string): Promise<Product> {
  const parts = ["algorithms/rate", "algorithms/memory-ring", "algorithms/charge-all", "lease/holder", "lease/ledger"];
  const modules = await Promise.all(
    parts.map((part) => import(/* @vite-ignore */ pathToFileURL(join(directory, `src/${part}.ts`)).href)),
  );
  return Object.assign({}, ...modules);
}

const limit = (algorithm: Limit["algorithm"], quota: number, windowUs: number, burst = quota): Limit => ({
  name: "limit",
  algorithm,
  quota,
  windowUs,
  burst,
  precisionUs: algorithm === "sliding-window" ? windowUs / 10 : 0,
});
const second = 1_000_000;
const bucket = limit("token-bucket", 400, second, 120);
const uneven = limit("token-bucket", 703, second, 150);
const slowBucket = limit("token-bucket", 7, second, 60);
const fixed = limit("fixed-window", 120, second);
const sliding = limit("sliding-window", 150, second);
const policies: readonly (readonly Limit[])[] = [
  [bucket],
  [uneven],
  [slowBucket],
  [fixed],
  [sliding],
  [bucket, fixed],
  [slowBucket, sliding],
  [uneven, bucket, fixed],
];

interface Seen {
  steps: number;
  excess: number;
  leased: number;
  acknowledged: number;
  refunded: number;
}

/** Plays worlds until a limit is broken, or so many steps have been taken. */
function explore(tested: Product, steps: number): Seen {
  const seen: Seen = { steps: 0, excess: Number.NEGATIVE_INFINITY, leased: 0, acknowledged: 0, refunded: 0 };
  for (let number = 0; seen.steps < steps && seen.excess <= 0; number++) {
    const world = new World(
      tested,
      policies[number % policies.length] as readonly Limit[],
      seeded(seed + number * 7919),
    );
    for (let step = 0; step < stepsPerWorld && world.excess <= 0; step++) {
      world.step();
      seen.steps += 1;
    }
    seen.excess = Math.max(seen.excess, world.excess);
    seen.leased += world.leased;
    seen.acknowledged += world.acknowledged;
    seen.refunded += world.refunded;
  }
  return seen;
}

test("a million steps break no limit", { timeout: 300_000 }, async () => {
  const seen = explore(await product(limiter), 1_000_000);
  expect(seen.steps).toBeGreaterThanOrEqual(1_000_000);
  // Limits were reached to the last unit, with units that had been leased.
  expect(seen.excess).toBe(0);
  expect(seen.leased).toBeGreaterThan(100_000);
  expect(seen.acknowledged).toBeGreaterThan(50_000);
  expect(seen.refunded).toBeGreaterThan(5_000);
});

test("a unit of one window is not returned into a lease of the next", async () => {
  const tested = await product(limiter);
  const redis = new Redis(tested, [fixed], tested.leaseParameters);
  const gateway = new Gateway(tested, "life");
  const ms = 1000;
  const exchange = (sentUs: number, arrivesUs: number) => {
    const message = gateway.send(sentUs, { exchanges: true, back: 0, want: 50 });
    return () => gateway.acceptAnswer(arrivesUs, redis.exchange(arrivesUs, message) as LeaseAnswer);
  };
  exchange(900 * ms, 901 * ms)();
  const later = exchange(990 * ms, 1001 * ms);
  const termUs = gateway.note(1);
  expect(gateway.spend(995 * ms, 1, false)).toBe(true);
  expect(later()).toBe(true);
  gateway.refund(termUs, 1);
  gateway.takeBackRefunded(1002 * ms);
  expect(gateway.cell).toBe(redis.ledger.holdings[0]?.outstanding);
});

test("a unit that is refunded during an exchange, or after it, is in the lease again after it", async () => {
  const tested = await product(limiter);
  const redis = new Redis(tested, [fixed], tested.leaseParameters);
  const gateway = new Gateway(tested, "life");
  const ms = 1000;
  const exchange = (sentUs: number, between: () => void = () => undefined) => {
    const message = gateway.send(sentUs, { exchanges: true, back: 0, want: 10 });
    between();
    gateway.acceptAnswer(sentUs + ms, redis.exchange(sentUs, message) as LeaseAnswer);
    gateway.takeBackRefunded(sentUs + ms);
  };
  const spend = (nowUs: number): number => {
    const termUs = gateway.note(1);
    expect(gateway.spend(nowUs, 1, false)).toBe(true);
    return termUs;
  };
  exchange(1010 * ms);
  const [before, long] = [spend(1012 * ms), spend(1012 * ms)];
  expect(gateway.cell).toBe(8);
  exchange(1050 * ms, () => gateway.refund(before, 1));
  expect(gateway.cell).toBe(19);
  gateway.refund(long, 1);
  exchange(1100 * ms);
  expect(gateway.cell).toBe(30);
  expect(redis.ledger.holdings[0]?.outstanding).toBe(30);
  // Units of requests that went on are spent.
  gateway.decide(spend(1102 * ms), 1);
  exchange(1150 * ms);
  expect(redis.ledger.holdings[0]?.outstanding).toBe(39);
});

describe("when Redis loses", () => {
  for (const [what, lose] of [
    ["the ledger, no more than the leased units is spent beyond the limit", (world: World) => world.loseLedger()],
    [
      "everything, no more than gateways hold is spent beyond a limit that begins anew",
      (world: World) => world.loseAll(),
    ],
    [
      "a counter that is reset by hand, no more than gateways hold is spent beyond a limit that begins anew",
      (world: World) => world.reset(),
    ],
  ] as const) {
    test(what, async () => {
      const tested = await product(limiter);
      let broken = 0;
      for (let number = 0; number < 1_000; number++) {
        const policy = policies[number % policies.length] as readonly Limit[];
        const world = new World(tested, policy, seeded(seed + number));
        for (let step = 0; step < 200; step++) world.step();
        expect(world.excess).toBeLessThanOrEqual(0);
        const atRisk = lose(world);
        for (let step = 0; step < 200; step++) world.step();
        if (world.excess > atRisk) expect(world.excess).toBeLessThanOrEqual(atRisk);
        if (world.excess > 0) broken += 1;
      }
      expect(broken).toBeGreaterThan(0);
    });
  }
});

interface Break {
  readonly name: string;
  readonly file: "ledger" | "holder";
  /** This text must occur once in the file. */
  readonly line: string;
  readonly becomes: string;
}

const breaks: readonly Break[] = [
  {
    name: "a message that comes again is processed again",
    file: "ledger",
    line: "  if (message.seq <= last) return message.seq === last ? place : overtaken;\n",
    becomes: "",
  },
  {
    name: "a message that was overtaken is processed",
    file: "ledger",
    line: "if (message.seq <= last) return message.seq === last ? place : overtaken;",
    becomes: "if (message.seq === last) return place;",
  },
  {
    name: "a lease lives from the arrival of its reply",
    file: "holder",
    line: "holder.deadlineUs = holder.sentUs + answer.durationUs",
    becomes: "holder.deadlineUs = nowUs + answer.durationUs",
  },
  {
    name: "clocks are assumed to run at the same rate",
    file: "holder",
    line: " - Math.ceil(answer.durationUs / clockDrift);",
    becomes: ";",
  },
  {
    name: "a bucket refills while units are out",
    file: "ledger",
    line: "      if (units > 0) owesAtLeast(rate, state, atUs, units + missing);\n",
    becomes: "",
  },
  {
    name: "what was out is forgotten when it expires",
    file: "ledger",
    line: "const atUs = Math.min(holding.expiryUs, nowUs);",
    becomes: "const atUs = nowUs;",
  },
  {
    name: "units are returned after they have expired",
    file: "ledger",
    line: "let held = nowUs < holding.expiryUs ? holding.outstanding : 0;",
    becomes: "let held = holding.outstanding;",
  },
  {
    name: "more units are returned than were held",
    file: "ledger",
    line: "unacknowledged + Math.min(message.back, held - honoured)",
    becomes: "unacknowledged + message.back",
  },
  {
    name: "a holding expires earlier in Redis than was reported",
    file: "ledger",
    line: "  holding.expiryUs = expiryUs;\n",
    becomes: "  holding.expiryUs = expiryUs - Math.floor(durationUs / 2);\n",
  },
  {
    name: "units outlive the window in which they were debited",
    file: "ledger",
    line: "expiryUs = Math.min(expiryUs, endOf(counter.rate, counter));",
    becomes: "expiryUs = Math.min(expiryUs, 9e15);",
  },
  {
    name: "a gateway returns units that another worker has spent",
    file: "holder",
    line: "holder.back = live ? Math.max(back + Math.min(left, 0), 0) : 0;",
    becomes: "holder.back = back;",
  },
  {
    name: "units are refunded to a lease although Redis has been informed that they are spent",
    file: "holder",
    line: " + (isSameTerm ? Math.max(undecided, 0) : 0)",
    becomes: "",
  },
  {
    name: "units are refunded to a lease after they have expired",
    file: "holder",
    line: "  if (!isSameTerm) beginTerm(holder, nowUs);\n",
    becomes: "",
  },
  {
    name: "units are refunded to a lease although Redis lets the gateway keep fewer",
    file: "holder",
    line: "  if (answer.honoured < holder.kept) beginTerm(holder, nowUs);\n",
    becomes: "",
  },
  {
    name: "a gateway accepts replies to messages that it has given up",
    file: "holder",
    line: "if (holder.waiting === 0 || answer.seq !== holder.seq) return false;",
    becomes: "",
  },
  {
    name: "Redis believes what a gateway says that it keeps",
    file: "ledger",
    line: "const honoured = Math.min(message.kept, held);",
    becomes: "const honoured = message.kept;",
  },
  {
    name: "a grant that has been acknowledged is taken back",
    file: "ledger",
    line: "message.acknowledged < holding.seq ?",
    becomes: "message.acknowledged <= holding.seq ?",
  },
];

describe("a broken protocol is detected within two million steps:", () => {
  const directories: string[] = [];

  afterAll(() => {
    for (const directory of directories) rmSync(directory, { recursive: true });
  });

  for (const { name, file, line, becomes } of breaks) {
    test(name, async () => {
      const directory = mkdtempSync(join(tmpdir(), "sluice-lease-"));
      directories.push(directory);
      cpSync(join(limiter, "src"), join(directory, "src"), { recursive: true });
      const path = join(directory, `src/lease/${file}.ts`);
      const parts = readFileSync(path, "utf8").split(line);
      expect(parts).toHaveLength(2);
      writeFileSync(path, parts.join(becomes));
      const seen = explore(await product(directory), 2_000_000);
      expect(seen.excess).toBeGreaterThan(0);
    });
  }
});
