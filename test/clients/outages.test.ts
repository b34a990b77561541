// What callers see while Redis, the gateway or the network is away, slow, or answers rubbish. The rows of outage-rows.ts are made one after the other
// with a real gateway, and all clients must see the same, which is what the table of docs/clients.md says.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { until } from "../fixtures/until.ts";
import { clients } from "./clients.ts";
import { Driver, type Load, type Result } from "./driver.ts";
import { outageTable, type Row, rows } from "./outage-rows.ts";
import { OutageWorld, storeFailures } from "./outage-world.ts";

const deadlineMs = 2_000;
const maxWaitMs = 300;
const pauseMs = 200;
/** The deadline of those who are answered at once. They would wait for it if they waited. */
const patientMs = 60_000;
const deadlineOf = ({ after }: Row) => (after === "at once" ? patientMs : deadlineMs);

interface Caller {
  readonly language: string;
  readonly onFailure: "allow" | "deny";
  readonly driver: Driver;
}

let world: OutageWorld;
const callers: Caller[] = [];
beforeAll(async () => {
  world = await OutageWorld.start();
  for (const { language, driver } of clients) {
    const command = await driver();
    for (const onFailure of ["allow", "deny"] as const) {
      callers.push({ language, onFailure, driver: new Driver(command) });
    }
  }
});
afterAll(async () => {
  await Promise.all(callers.map(({ driver }) => driver.stop()));
  await world?.stop();
});

/** Says in a few words who decided what. */
function wordsOf({ allowed, source, reason, failure, holds, ...rest }: Result): string {
  const words = [allowed === true ? "allowed" : allowed === false ? "refused" : JSON.stringify(rest), source];
  if (reason !== undefined) words.push(String(reason));
  if (typeof failure === "string" && failure.length > 20) words.push("with a sentence");
  if (rest["limit"] !== undefined) words.push("with figures");
  if (holds === true) words.push("with a hold");
  if (typeof rest["debt"] === "number") words.push("with a debt");
  return words.join(", ");
}

const calls = {
  check: (user: string) => storeFailures.map((policy) => ({ call: "check", policy, key: [user] })),
  report: (user: string) => storeFailures.map((policy) => ({ call: "report", policy, key: [user] })),
  acquire: (user: string) => storeFailures.map((policy) => ({ call: "acquire", policy, key: [user], maxWaitMs })),
  hold: (user: string) =>
    storeFailures.map((name) => ({ call: "hold", policy: `slots-${name}`, key: [user], as: `${user} ${name}` })),
};
type CallName = keyof typeof calls;

function inTime(tookMs: number, { after }: Row, waitMs: number): true | string {
  const [leastMs, mostMs] = after === "at once" ? [0, patientMs - 10_000] : [deadlineMs + waitMs - 10, patientMs];
  return (tookMs >= leastMs && tookMs <= mostMs) || `after ${Math.round(tookMs)} ms`;
}

/** Makes all calls during the outage, each when the pause of the former is over. */
async function seenDuring(row: Row, driver: Driver, user: string): Promise<object> {
  const seen: Record<string, unknown> = {};
  for (const name of ["check", "report", "acquire", "hold"] as const) {
    const beganMs = performance.now();
    const results = await driver.do(...calls[name](user));
    const tookMs = performance.now() - beganMs;
    seen[name] = { results: results.map(wordsOf), inTime: inTime(tookMs, row, name === "acquire" ? maxWaitMs : 0) };
    await sleep(pauseMs + 50);
  }
  return seen;
}

function wantedDuring({ decides }: Row, onFailure: "allow" | "deny"): object {
  const does = onFailure === "allow" ? "allowed" : "refused";
  const wanted = (name: CallName) => {
    const own = (isAllowed: boolean) => {
      if (name === "report") return ", with a debt";
      return name === "hold" && isAllowed ? ", with a hold" : "";
    };
    const byFailure = `${does}, failure, failure, with a sentence${own(onFailure === "allow")}`;
    const byGateway = [
      `allowed, gateway, with figures${own(true)}`,
      `allowed, gateway, undecided${own(true)}`,
      `refused, gateway, undecided${own(false)}`,
    ];
    return { results: decides === "client" ? [byFailure, byFailure, byFailure] : byGateway, inTime: true };
  };
  return { check: wanted("check"), report: wanted("report"), acquire: wanted("acquire"), hold: wanted("hold") };
}

const decidedByRedis = Array(storeFailures.length).fill("allowed, gateway, with figures");
const ask = async ({ driver }: Caller, user: string) => (await driver.do(...calls.check(user))).map(wordsOf);
const isDecidedByRedis = async (caller: Caller, user: string) =>
  JSON.stringify(await ask(caller, user)) === JSON.stringify(decidedByRedis);

/** Gives each caller a fresh client that has a kept connection. */
async function begin(url: string, user: string, deadlineMs: number): Promise<void> {
  await Promise.all(
    callers.map(async (caller) => {
      const { onFailure, driver } = caller;
      const options = { url, token: world.token, deadlineMs, onFailure, retryAfterFailureMs: pauseMs };
      await driver.client(options);
      await until("the gateway decides by Redis", () => isDecidedByRedis(caller, user));
    }),
  );
}

/** By caller: who it is, and what comes of it. */
async function ofAll<T>(look: (caller: Caller) => Promise<T> | T): Promise<Record<string, T>> {
  const all = callers.map(
    async (caller) => [`${caller.language}, onFailure ${caller.onFailure}`, await look(caller)] as const,
  );
  return Object.fromEntries(await Promise.all(all));
}

it.each(Object.entries(rows) as [keyof typeof rows, Row][])("%s", async (name, row) => {
  await begin(world.urlFor(name), name, deadlineOf(row));
  const outage = world.outages[name];
  await outage.begin();
  let seen: object;
  try {
    // The gateway needs a call to find that its Redis is away; the table says what comes then and later.
    seen = await ofAll(({ driver }) => seenDuring(row, driver, name));
  } finally {
    await outage.end();
  }
  expect(seen).toEqual(await ofAll(({ onFailure }) => wantedDuring(row, onFailure)));
  if (row.decides === "gateway") {
    await ofAll((caller) => until("Redis decides again", () => isDecidedByRedis(caller, name)));
    return;
  }
  await sleep(pauseMs);
  // The very first call.
  expect(await ofAll((caller) => ask(caller, name))).toEqual(await ofAll(() => decidedByRedis));
});

it("a reload of nginx under load is seen by those alone whose connection nginx closed at that moment", async () => {
  const parallel = 20;
  const inFlight = 2;
  const reloads = 3;
  await begin(world.system.gateway.privateUrl, "reload", patientMs);
  // Who waits in line while nginx reloads, has its turn.
  const lines = await ofAll(async ({ driver }) => driver);
  const [first] = Object.values(lines) as [Driver];
  await first.do({ call: "check", policy: "line", key: ["reload"] });
  const turn = first.do({ call: "acquire", policy: "line", key: ["reload"], maxWaitMs: 20_000 });
  const others = callers.slice(1);
  const loads = others.map(({ driver }) =>
    driver.load({ callers: parallel, seconds: 3, call: { call: "check", policy: "local", key: ["reload"] } }),
  );
  for (let i = 0; i < reloads; i++) {
    await sleep(600);
    world.reload();
  }
  expect((await turn).map(wordsOf)).toEqual(["allowed, gateway, with figures"]);
  const seen = (await Promise.all(loads)).map(({ calls, errors, failures, refused }: Load, i) => ({
    who: others[i]?.language,
    // A busy machine has few calls in three seconds, but some between any two reloads.
    hadLoad: calls > 2 * parallel,
    errors,
    // At worst all requests that were under way, each with as many checks as there are callers.
    failures: failures <= reloads * inFlight * parallel || failures,
    refusedByFailureAlone: refused <= failures,
  }));
  const wanted = { hadLoad: true, errors: 0, failures: true, refusedByFailureAlone: true };
  expect(seen).toEqual(others.map(({ language }) => ({ who: language, ...wanted })));
  await sleep(pauseMs);
  expect(await ofAll((caller) => ask(caller, "reload"))).toEqual(await ofAll(() => decidedByRedis));
});

it("docs/clients.md has this table", () => {
  const page = readFileSync(join(resolve(import.meta.dirname, "../.."), "docs/clients.md"), "utf8");
  const [, section] = /^## When something is away$(.*?)(?=^## |$(?![\s\S]))/ms.exec(page) ?? [];
  const [table] = /^\|.*\|$(?:\n^\|.*\|$)*/m.exec(section as string) ?? [];
  expect(table).toBe(outageTable());
});
