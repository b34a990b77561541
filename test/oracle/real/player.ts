// Plays worlds on real nginxes and Redises: SLUICE_NGINX and SLUICE_REDIS_SERVER say which ones.

import { spawnSync } from "node:child_process";
import { nginxUnderTest } from "../../fixtures/servers/nginx-under-test.ts";
import type { Player } from "../players.ts";
import type { Played, World } from "../world.ts";
import { Fleet } from "./fleet.ts";
import { Upstream } from "./upstream.ts";

export class RealPlayer implements Player {
  readonly atOnce: number;
  readonly #mostFleets: number;
  readonly #upstream: Promise<Upstream> = Upstream.start();
  readonly #fleets = new Set<Fleet>();
  readonly #idle: Fleet[] = [];
  readonly #waiting: (() => void)[] = [];
  #taken = 0;
  #begun = 0;

  /** @param mostFleets so many worlds are played side by side, each on servers of its own */
  constructor(mostFleets: number) {
    this.#mostFleets = mostFleets;
    // The last requests of some worlds wait still while the next world is played.
    this.atOnce = 3 * mostFleets;
  }

  async play(world: World): Promise<Played> {
    try {
      const { played } = await this.#onFleet((fleet) => fleet.play(world));
      return await played;
    } catch (error) {
      return { answers: [], fault: String(error) };
    }
  }

  async servers(): Promise<string> {
    const redis = await this.#onFleet((fleet) => fleet.redisName());
    const { stderr } = spawnSync(nginxUnderTest().path, ["-v"], { encoding: "utf8" });
    return `${stderr.replace("nginx version: ", "").trim()}, ${redis}`;
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#fleets].map((fleet) => fleet.stop()));
    (await this.#upstream).stop();
  }

  async #onFleet<Result>(work: (fleet: Fleet) => Promise<Result>): Promise<Result> {
    while (this.#taken >= this.#mostFleets) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#taken += 1;
    try {
      const fleet = this.#idle.pop() ?? (await this.#newFleet());
      try {
        const result = await work(fleet);
        this.#idle.push(fleet);
        return result;
      } catch (error) {
        // Nobody knows what these servers still do.
        this.#fleets.delete(fleet);
        await fleet.stop();
        throw error;
      }
    } finally {
      this.#taken -= 1;
      this.#waiting.shift()?.();
    }
  }

  async #newFleet(): Promise<Fleet> {
    this.#begun += 1;
    const fleet = await Fleet.start(`fleet-${this.#begun}`, await this.#upstream);
    this.#fleets.add(fleet);
    return fleet;
  }
}
