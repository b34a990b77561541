// A real Redis and real nginxes with clocks that we set, on which one world after the other is played.

import { Redis } from "ioredis";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { SetClock } from "../../fixtures/servers/set-clock.ts";
import { zonesOf } from "../players.ts";
import type { Played, World } from "../world.ts";
import { Course } from "./course.ts";
import { RealGateway } from "./gateway.ts";
import type { Upstream } from "./upstream.ts";

export class Fleet {
  readonly #name: string;
  readonly #upstream: Upstream;
  readonly #clock: SetClock;
  readonly #redisClock: SetClock;
  readonly #redis: RedisServer;
  readonly #client: Redis;
  /** By how many workers they have. */
  readonly #gateways: Record<number, RealGateway[]> = {};
  #worlds = 0;
  #revision = 0;

  private constructor(
    name: string,
    upstream: Upstream,
    { clock, redisClock }: { readonly clock: SetClock; readonly redisClock: SetClock },
    redis: RedisServer,
  ) {
    this.#name = name;
    this.#upstream = upstream;
    this.#clock = clock;
    this.#redisClock = redisClock;
    this.#redis = redis;
    this.#client = new Redis(redis.url);
  }

  static async start(name: string, upstream: Upstream): Promise<Fleet> {
    const clocks = { clock: new SetClock(1_700_000_000), redisClock: new SetClock(1_700_000_000) };
    const redis = new RedisServer(await freePort(), clocks.redisClock.redisEnv);
    await redis.start();
    return new Fleet(name, upstream, clocks, redis);
  }

  /** Which Redis it is: "Redis 7.0.15" or "Valkey 8.0.1". */
  async redisName(): Promise<string> {
    const info = await this.#client.info("server");
    const [, valkey] = /^valkey_version:(\S+)/m.exec(info) ?? [];
    return valkey === undefined ? `Redis ${/^redis_version:(\S+)/m.exec(info)?.[1]}` : `Valkey ${valkey}`;
  }

  /** Returns when another world may begin. @returns what this one says, which may take longer */
  async play(world: World): Promise<{ readonly played: Promise<Played> }> {
    const gateways = await this.#gatewaysFor(world);
    this.#worlds += 1;
    const app = `${this.#name}-${this.#worlds}`;
    const zones = zonesOf(world);
    let histories = 0;
    let told = 0;
    const course = new Course(world, app, {
      clock: this.#clock,
      redisClock: this.#redisClock,
      gateways,
      upstream: this.#upstream,
      publish: async (policies) => {
        this.#revision += 1;
        const all = gateways.map((one) => one.publish(this.#revision, app, policies, zones, gateways.length));
        await Promise.all(all);
      },
      tellOfConsumers: async (lines, isAll = false) => {
        if (world.consumers === undefined) return;
        if (isAll) {
          histories += 1;
          told = 0;
        }
        await Promise.all(gateways.map((one) => one.tellOfConsumers(`${app}-${histories}`, told, lines)));
        told += 1;
      },
      turns: async (gateway, worker, count) => {
        for (let turn = 0; turn < count; turn++) {
          await gateway.hears(worker);
          await this.#client.ping();
        }
      },
    });
    const { answers } = await course.play();
    return {
      played: answers.then((all) => {
        const fault = gateways.flatMap((one) => one.newError() ?? [])[0];
        return { answers: all, ...(fault === undefined ? {} : { fault }) };
      }),
    };
  }

  async stop(): Promise<void> {
    this.#client.disconnect();
    await Promise.all([...Object.values(this.#gateways).flat(), this.#redis].map((one) => one.stop()));
    this.#clock.remove();
    this.#redisClock.remove();
  }

  async #gatewaysFor({ gateways: count, workers }: World): Promise<RealGateway[]> {
    this.#gateways[workers] ??= [];
    const own = this.#gateways[workers];
    while (own.length < count) {
      const id = `${this.#name}-${workers}-${own.length + 1}`;
      own.push(await RealGateway.start(id, workers, this.#clock, this.#redis.url, this.#upstream.url));
    }
    return own.slice(0, count);
  }
}
