// Plays worlds on real nginxes and Redises: SLUICE_NGINX and SLUICE_REDIS_SERVER say which ones.

import { spawnSync } from "node:child_process";
import { nginxUnderTest } from "../../fixtures/servers/nginx-under-test.ts";
import type { Player } from "../players.ts";
import type { Played, World } from "../world.ts";
import { Lane } from "./lane.ts";
import { Upstream } from "./upstream.ts";

export class RealPlayer implements Player {
  readonly atOnce: number;
  readonly #mostLanes: number;
  readonly #upstream: Promise<Upstream> = Upstream.start();
  readonly #lanes = new Set<Lane>();
  readonly #idle: Lane[] = [];
  readonly #waiting: (() => void)[] = [];
  #taken = 0;
  #begun = 0;

  /** @param mostLanes so many worlds are played side by side, each on servers of its own */
  constructor(mostLanes: number) {
    this.#mostLanes = mostLanes;
    // The last requests of some worlds wait still while the next world is played.
    this.atOnce = 3 * mostLanes;
  }

  async play(world: World): Promise<Played> {
    try {
      const { played } = await this.#onLane((lane) => lane.play(world));
      return await played;
    } catch (error) {
      return { answers: [], fault: String(error) };
    }
  }

  async servers(): Promise<string> {
    const redis = await this.#onLane((lane) => lane.redisName());
    const { stderr } = spawnSync(nginxUnderTest().path, ["-v"], { encoding: "utf8" });
    return `${stderr.replace("nginx version: ", "").trim()}, ${redis}`;
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#lanes].map((lane) => lane.stop()));
    (await this.#upstream).stop();
  }

  async #onLane<Result>(work: (lane: Lane) => Promise<Result>): Promise<Result> {
    while (this.#taken >= this.#mostLanes) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#taken += 1;
    try {
      const lane = this.#idle.pop() ?? (await this.#newLane());
      try {
        const result = await work(lane);
        this.#idle.push(lane);
        return result;
      } catch (error) {
        // Nobody knows what these servers still do.
        this.#lanes.delete(lane);
        await lane.stop();
        throw error;
      }
    } finally {
      this.#taken -= 1;
      this.#waiting.shift()?.();
    }
  }

  async #newLane(): Promise<Lane> {
    this.#begun += 1;
    const lane = await Lane.start(`lane-${this.#begun}`, await this.#upstream);
    this.#lanes.add(lane);
    return lane;
  }
}
