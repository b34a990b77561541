// The program by which the conformance suite controls this client: JSON lines come on stdin, and each is answered with one line on
// stdout, in order. clients/README.md describes the lines.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import {
  type Check,
  type ClientOptions,
  type Decision,
  type HeldDecision,
  type Hold,
  SluiceClient,
  SluiceError,
  type SluiceEvent,
} from "../src/index.ts";
import { type LoadOrder, load } from "./load.ts";

export interface Call extends Check {
  readonly call: "check" | "peek" | "report" | "acquire" | "hold" | "checkAll" | "release" | "isLost";
  readonly maxWaitMs?: number;
  readonly slots?: number;
  readonly ttlMs?: number;
  readonly as?: string;
  readonly hold?: string;
  readonly checks?: readonly Check[];
}

type ClientOrder = Omit<ClientOptions, "tls" | "onEvent"> & { readonly caFile?: string };

interface Line {
  readonly client?: ClientOrder;
  readonly do?: readonly Call[];
  readonly events?: true;
  readonly load?: LoadOrder;
}

interface KeptHold {
  readonly hold: Hold;
  isLost: boolean;
}

let client: SluiceClient | undefined;
let events: SluiceEvent[] = [];
const holds = new Map<string, KeptHold>();

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === "") continue;
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}
await client?.close();

async function answer(line: Line): Promise<object> {
  if (line.client !== undefined) return replaceClient(line.client);
  if (line.do !== undefined) return { results: await Promise.all(line.do.map(resultOf)) };
  if (line.load !== undefined) return load(current(), line.load);
  const told = events;
  events = [];
  return { events: told };
}

async function replaceClient({ caFile, ...options }: ClientOrder): Promise<object> {
  await client?.close();
  client = undefined;
  holds.clear();
  events = [];
  try {
    const tls = caFile === undefined ? {} : { tls: { ca: readFileSync(caFile) } };
    client = new SluiceClient({ ...options, ...tls, onEvent: (event) => events.push(event) });
    return { ok: true };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

async function resultOf(call: Call): Promise<object> {
  try {
    return await make(call);
  } catch (error) {
    if (!(error instanceof SluiceError)) return { error: { message: (error as Error).message } };
    const { code, status, detail, errors } = error;
    return { error: { code, status, detail, ...(errors.length > 0 ? { errors } : {}) } };
  }
}

/** Starts the call before it returns, so that calls start in their order. */
function make(order: Call): Promise<object> {
  const { call, policy, key, cost, plan, maxWaitMs, slots, ttlMs } = order;
  switch (call) {
    case "check":
      return current().check(policy, key, { cost, plan });
    case "peek":
      return current().peek(policy, key, { cost, plan });
    case "report":
      return current().report(policy, key, { cost, plan });
    case "acquire":
      return current().acquire(policy, key, { maxWaitMs: maxWaitMs as number, cost, plan });
    case "checkAll":
      return current().checkAll(order.checks ?? []);
    case "hold":
      return current()
        .hold(policy, key, { slots, ttlMs, plan, maxWaitMs })
        .then((decision) => keep(order.as ?? "", decision));
    case "release":
      return kept(order.hold)
        .hold.release()
        .then(() => ({ released: true }));
    case "isLost":
      return Promise.resolve({ lost: kept(order.hold).isLost });
  }
}

function keep(name: string, { hold, ...decision }: HeldDecision): Decision & { holds: boolean } {
  if (hold !== undefined) {
    const one: KeptHold = { hold, isLost: false };
    holds.set(name, one);
    void hold.lost.then(() => {
      one.isLost = true;
    });
  }
  return { ...decision, holds: hold !== undefined };
}

function kept(name = ""): KeptHold {
  const one = holds.get(name);
  if (one === undefined) throw new Error(`there is no hold ${name}`);
  return one;
}

function current(): SluiceClient {
  if (client === undefined) throw new Error("there is no client");
  return client;
}
