// npm run budgets: what clients of every kind can cost a control plane. README.md says what it shows. Exits with 1 if a bound is exceeded.

import { fork } from "node:child_process";
import { once } from "node:events";
import { table } from "../../bench/report.ts";
import { optionsFrom } from "../../launch/command-line.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { atMost, type Fact } from "../fixtures/measures/fact.ts";
import { type Outcome, runTrial } from "../fixtures/measures/trial.ts";
import type { Flood, Flooded } from "./flood.ts";
import { type Kind, kinds } from "./requests.ts";
import { requestsOf, routeCosts } from "./routes.ts";
import { type Watched, watch } from "./watch.ts";
import { type DatabaseName, databases, startWorld, type World } from "./world.ts";

const usage =
  "npm run budgets -- [--routes] [--seconds 120] [--only stranger,caller,viewer,editor] [--database SQLite,PostgreSQL,MariaDB]";
const mostMb = 400;
const mostHealthzMs = 100;
const mostPushMs = 200;
const floodProgram = new URL("flood.ts", import.meta.url).pathname;

interface Options {
  /** Measures each route instead. */
  readonly routes: boolean;
  readonly seconds: number;
  readonly only: readonly Kind[];
  readonly on: readonly DatabaseName[];
}

await runTrial({ readOptions, play });

function readOptions(args: readonly string[]): Options {
  const text = { type: "string" } as const;
  const options = { routes: { type: "boolean" }, seconds: text, only: text, database: text } as const;
  const values = optionsFrom(args, options, usage);
  return {
    routes: values.routes === true,
    seconds: Number(values.seconds ?? 120),
    only: chosen(values.only, kinds, "--only"),
    on: chosen(values.database, databases, "--database"),
  };
}

function chosen<Name extends string>(given: string | undefined, all: readonly Name[], option: string): readonly Name[] {
  const names = given?.split(",") ?? all;
  return names.map((name) => {
    const found = all.find((one) => one.toLowerCase() === name.toLowerCase());
    if (found === undefined)
      throw new SetupError(`${option}: expected some of ${all.join(", ")}, got "${name}"\n${usage}`);
    return found;
  });
}

async function play({ routes, seconds, only, on }: Options, stopping: AbortSignal): Promise<Outcome | undefined> {
  const facts: Fact[] = [];
  const tables: string[] = [];
  for (const database of on) {
    if (stopping.aborted) return undefined;
    say(`${database}: storing much …`);
    await using stack = new AsyncDisposableStack();
    const world = await startWorld(stack, database, !routes);
    if (routes) {
      tables.push(tableOfRoutes(database, await routeCosts(world)));
      continue;
    }
    say(`${database}: ${only.join(", ")} at full force for ${seconds} s …`);
    const [watched, answers] = await flooded(world, only, seconds);
    tables.push(tableOfAnswers(database, only, answers));
    facts.push(...factsOf(database, watched));
  }
  if (!routes) {
    const rows = facts.map(({ what, expected, seen, ok }) => [what, expected, seen, ok ? "as expected" : "DIFFERS"]);
    tables.push(table([`${only.join(", ")} for ${seconds} s`, "expected", "seen", ""], rows).join("\n"));
  }
  return {
    tables: tables.join("\n\n"),
    files: "what is printed here",
    differing: facts.filter(({ ok }) => !ok).length,
    of: facts.length,
  };
}

async function flooded(
  world: World,
  only: readonly Kind[],
  seconds: number,
): Promise<[watched: Watched, answers: readonly Flooded[]]> {
  const requests = await requestsOf(world);
  const port = Number(new URL(world.plane.url).port);
  const clients = only.map((kind) => {
    const child = fork(floodProgram);
    const from = `127.0.0.${10 + kinds.indexOf(kind)}`;
    const flood: Flood = { port, from, requests: requests[kind].map((request) => request.toString("base64")) };
    child.send(flood);
    return child;
  });
  try {
    const watched = await watch(world, performance.now() + seconds * 1_000);
    const answers = clients.map(async (client) => {
      const told = once(client, "message");
      client.send("tell");
      return (await told)[0] as Flooded;
    });
    return [watched, await Promise.all(answers)];
  } finally {
    for (const client of clients) client.kill("SIGKILL");
  }
}

function factsOf(database: DatabaseName, { beforeMb, mostMb: seenMb, healthz, push, refusedEdits }: Watched): Fact[] {
  return [
    atMost(`${database}: memory of the control plane, ${beforeMb.toFixed(0)} MB before`, mostMb, seenMb, " MB"),
    atMost(
      `${database}: /healthz p99 of ${healthz.count}, at most ${healthz.most.toFixed(0)} ms`,
      mostHealthzMs,
      healthz.p99,
      " ms",
    ),
    atMost(`${database}: push p99 of ${push.count}, at most ${push.most.toFixed(0)} ms`, mostPushMs, push.p99, " ms"),
    atMost(`${database}: edits of another app that were refused`, 0, refusedEdits),
  ];
}

function tableOfRoutes(database: DatabaseName, costs: Awaited<ReturnType<typeof routeCosts>>): string {
  const rows = costs.map(({ asked, status, ms, bytes }) => [asked, `${status}`, ms.toFixed(2), `${bytes}`]);
  return table([`${database}: request`, "status", "ms", "bytes"], rows).join("\n");
}

function tableOfAnswers(database: DatabaseName, only: readonly Kind[], answers: readonly Flooded[]): string {
  const rows = only.map((kind, i) => [
    kind,
    Object.entries(answers[i] ?? {})
      .sort()
      .map(([what, count]) => `${what}: ${count}`)
      .join(", "),
  ]);
  return table([`${database}: answers to a`, "statuses, and connections that were closed"], rows).join("\n");
}
