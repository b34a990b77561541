// Who plays worlds: a process that answers each line with a line.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { changesOf } from "./reference/calendar.ts";
import type { Checks, Played, World } from "./world.ts";
import { timezonesIn } from "./worlds.ts";

export const project = resolve(import.meta.dirname, "../..");

export type Zones = Readonly<Record<string, readonly (readonly [number, number])[]>>;

export interface Player {
  /** How many worlds it is given at once, so that it never waits for us. */
  readonly atOnce: number;
  /** What it plays on, in words. */
  servers(): Promise<string>;
  play(world: World): Promise<Played>;
  stop(): Promise<void>;
}

/** Plays in virtual nginxes, in LuaJIT. @param root the project, or a copy of it that has gateway/dist */
export class VirtualPlayer implements Player {
  readonly atOnce = 8;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting: { resolve(played: Played): void; reject(error: Error): void }[] = [];
  #errors = "";

  constructor(root: string = project) {
    this.#child = spawn("luajit", ["test/oracle/virtual-player.lua"], { cwd: root });
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#errors += text;
    });
    createInterface(this.#child.stdout).on("line", (line) =>
      this.#waiting.shift()?.resolve(JSON.parse(line) as Played),
    );
    this.#child.on("error", (error) => this.#fail(error));
    this.#child.on("close", (code) => this.#fail(new Error(`luajit ended (${code}): ${this.#errors}`)));
  }

  play(world: World): Promise<Played> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      // Lua's JSON knows no empty list, so the bodies are written here.
      const events = world.events.map((event) => (event.do === "check" ? { ...event, body: bodyOf(event) } : event));
      this.#child.stdin.write(`${JSON.stringify({ ...world, events, zones: zonesOf(world) })}\n`);
    });
  }

  async servers(): Promise<string> {
    return "virtual nginxes";
  }

  async stop(): Promise<void> {
    this.#child.stdin.end();
  }

  #fail(error: Error): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}

/** What a caller of the check API sends. */
export function bodyOf({ mode, checks }: Checks): string {
  return JSON.stringify({ mode, checks });
}

/** The clock changes of the zones that policies name, as gateways get them: from which second on there is which offset, in minutes. */
export function zonesOf({ policies, events }: World): Zones {
  const all = [...policies, ...events.flatMap((event) => (event.do === "put" ? [event.policy] : []))];
  const zones: Record<string, (readonly [number, number])[]> = {};
  for (const name of timezonesIn(all))
    zones[name] = changesOf(name).map(([atMs, offsetMs]) => [atMs / 1_000, offsetMs / 60_000]);
  return zones;
}
