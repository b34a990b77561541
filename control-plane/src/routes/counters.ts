// /api/v1/apps/{app}/counters: reads, resets and tops up the counters of one key of a policy, in Redis or on the gateways.

import { byConsumer } from "@sluice/limiter/document/policy-shape.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import { isEndless } from "@sluice/limiter/header-values.ts";
import { looksLikeCredential } from "@sluice/limiter/key/credential.ts";
import type { CounterOrder, CounterReading } from "@sluice/limiter/protocol/push-messages.ts";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { type AskedCounter, askedCounter } from "../counters/asked-counter.ts";
import { ApiError } from "../errors/api-error.ts";
import type { CounterAnswer } from "../push/counter-orders.ts";
import type { RedisCounters } from "../redis/redis-counters.ts";
import { RedisFailure } from "../redis/redis-failure.ts";
import { counterQuery, literalParameter, readKey, type TopUpBody, topUpShape } from "../schemas/counter-query.ts";
import { appSegment, querySchema } from "../schemas/parameters.ts";
import { schemaOf } from "../schemas/policy-schema.ts";
import { readBody, refuseProblems } from "../schemas/read-body.ts";
import { answers } from "../schemas/responses.ts";
import { secretPartsOf } from "../secrets/secret-parts.ts";
import { trace } from "../storage/audit.ts";
import type { Terms } from "../storage/consumer-changes.ts";
import { findConsumer } from "../storage/consumers.ts";
import { DatabaseUnwritable } from "../storage/engines/database-errors.ts";
import { getPolicy } from "../storage/policies.ts";
import { readTemplates } from "../storage/template-documents.ts";
import { originOf } from "./applied.ts";
import { mayChange, refuseGuesses } from "./readers.ts";

const params = { type: "object", properties: { app: appSegment } } as const;
const querystring = { ...querySchema(counterQuery), required: ["policy"] };
const tags = ["counters"];
const refuses = ["app-not-found", "policy-not-found", "redis-unavailable"] as const;

interface OneCounter {
  Params: { app: string };
  Querystring: { policy: string; key?: string | readonly string[]; plan?: string; literal: boolean };
}

/** The operation on the counter before it is read. */
type Change = Pick<CounterOrder, "plan" | "limit" | "units"> & { readonly do: CounterOrder["do"] };

export default async function counterRoutes(app: FastifyInstance): Promise<void> {
  app.get<OneCounter>(
    "/apps/:app/counters",
    {
      config: { access: "read", records: "audit", refuses },
      schema: {
        tags,
        summary: "Read what a key of a policy has left, in Redis or on each gateway",
        description:
          "If values of the key may be credentials, this is refused to those who may not change the policy: they could try values.",
        params,
        querystring,
        response: answers({ 200: "Counter" }),
      },
    },
    async (request) => {
      const { params, query } = request;
      const { policy, literal, plan } = query;
      const key = readKey(query.key);
      if (!mayChange(request, params.app)) await refuseCredentials(params.app, policy, key);
      const asked = await find(params.app, policy, key, literal, plan);
      await note(request, params.app, asked, "read-counter");
      return carryOut(params.app, asked, { do: "read", ...planOf(plan) });
    },
  );

  app.delete<OneCounter>(
    "/apps/:app/counters",
    {
      config: { access: "write", records: "audit", refuses },
      schema: {
        tags,
        summary: "Reset a key of a policy, as if it were new, and read what it has left",
        params,
        querystring,
        response: answers({ 200: "Counter" }),
      },
    },
    async (request) => {
      const { params, query } = request;
      const { policy, key, literal, plan } = query;
      const asked = await find(params.app, policy, readKey(key), literal, plan);
      await note(request, params.app, asked, "reset-counter");
      return carryOut(params.app, asked, { do: "forget", ...planOf(plan) });
    },
  );

  app.post<{ Params: { app: string }; Querystring: { literal: boolean } }>(
    "/apps/:app/counters",
    {
      config: { access: "write", records: "audit", body: schemaOf(topUpShape), refuses },
      schema: {
        tags,
        summary: "Refund units to a key of a policy, and read what it has left",
        description: "Refunds at most the units that are charged and still count. Each gateway refunds its own units.",
        params,
        querystring: querySchema({ literal: literalParameter }),
        response: answers({ 200: "Counter" }),
      },
    },
    async (request) => {
      const { app: name } = request.params;
      const { policy, key = [], plan, limit, units } = readBody<TopUpBody>(topUpShape, request.body);
      const asked = await find(name, policy, key, request.query.literal, plan);
      refuseUntoppable(asked, limit);
      const given = { units, ...(limit === undefined ? {} : { limit }) };
      await note(request, name, asked, "top-up-counter", given);
      return carryOut(name, asked, { do: "top-up", ...given, ...planOf(plan) });
    },
  );

  /** @throws ApiError app-not-found, policy-not-found, forbidden */
  async function refuseCredentials(name: string, policy: string, key: readonly string[]): Promise<void> {
    const { document } = await getPolicy(app.database, name, policy);
    const secret = secretPartsOf(document);
    if (!key.some((value, i) => secret[i] === true || looksLikeCredential(value))) return;
    const whose = `Values of the key of policy "${policy}" may be credentials`;
    throw refuseGuesses(`${whose}: only those read the counter of one who may change the policy.`);
  }

  /** @throws ApiError app-not-found, policy-not-found, invalid-request */
  async function find(
    name: string,
    policy: string,
    key: readonly string[],
    literal: boolean,
    plan: string | undefined,
  ): Promise<AskedCounter> {
    const { document } = await getPolicy(app.database, name, policy);
    const consumer = await consumerOf(name, document, key);
    return askedCounter(name, document, await readTemplates(app.database, name), key, literal, plan, consumer);
  }

  /** @returns undefined if nobody is known by the key, or the policy does not ask for consumers */
  async function consumerOf(name: string, document: unknown, key: readonly string[]): Promise<Terms | undefined> {
    const [id] = key;
    if ((document as { planBy?: string }).planBy !== byConsumer || id === undefined) return undefined;
    return findConsumer(app.database, name, id);
  }

  async function carryOut(name: string, asked: AskedCounter, change: Change) {
    const { policy, values } = asked;
    const counter = { app: name, policy: policy.name, key: [...values] };
    if (policy.policy.scope === "node") {
      return shown(name, asked, undefined, await app.counterOrders.send({ ...counter, ...change }));
    }
    const counters = redisCounters();
    const limits = await answered(() => changeInRedis(counters, asked, change));
    // Gateways must forget what they keep of the counter, because it is not true any more. For a read they need not be
    // asked.
    const reported = change.do === "read" ? [] : await app.counterOrders.send({ ...counter, do: "forget" });
    return shown(name, asked, limits, reported);
  }

  function redisCounters(): RedisCounters {
    if (app.redis !== undefined) return app.redis.counters;
    throw new ApiError("redis-unavailable", "The policy counts in Redis, and SLUICE_REDIS_URL is not set.");
  }

  /** @throws ApiError redis-unavailable */
  async function answered<Result>(ask: () => Promise<Result>): Promise<Result> {
    try {
      return await ask();
    } catch (error) {
      const { message } = error instanceof Error ? error : { message: String(error) };
      const what = "Redis did not do what was asked of a counter";
      app.minuteLog.say("warn", what, { error: message }, what);
      const clause = error instanceof RedisFailure ? error.clause : "does not answer as it should";
      throw new ApiError("redis-unavailable", `The policy counts in Redis, which ${clause}.`);
    }
  }
}

async function changeInRedis(
  counters: RedisCounters,
  { policy, policies, keyValues }: AskedCounter,
  change: Change,
): Promise<CounterReading[]> {
  if (change.do === "forget") await counters.forget(policies, keyValues);
  if (change.do === "top-up") await counters.topUp(policy, keyValues, change.limit, change.units ?? 0);
  return counters.read(policy, keyValues);
}

/** @throws ApiError invalid-request if the limit's units cannot be refunded by hand */
function refuseUntoppable({ policy }: AskedCounter, name: string | undefined): void {
  const { limits } = policy;
  if (policy.policy.deferred) {
    const expected = "a policy whose cost is not response-bytes: reset what is owed there";
    refuseProblems([{ path: "policy", expected, got: describeValue(policy.name) }]);
  }
  const meant = limits.filter((limit) => name === undefined || limit.name === name);
  const toppable = limits.filter(({ rate }) => rate.algorithm !== "concurrency").map((limit) => limit.name);
  if (meant.length > 0 && meant.every((limit) => toppable.includes(limit.name))) return;
  const expected =
    toppable.length === 0
      ? "a policy with other limits than concurrency, whose slots are held by requests"
      : `one of ${toppable.join(", ")}`;
  refuseProblems([{ path: "limit", expected, got: describeValue(name) }]);
}

/**
 * Records who does this before it is done, because counters have no history. If the disk is full, a line in the log replaces
 * the entry, of who only looks once a minute: an operator who looks after counters must not be refused then. The key may identify a person, so it is not
 * logged.
 */
async function note(
  request: FastifyRequest,
  app: string,
  { policy, values }: AskedCounter,
  action: "read-counter" | "reset-counter" | "top-up-counter",
  after?: object,
): Promise<void> {
  const origin = originOf(request);
  const { name } = policy;
  request.log.info({ who: origin.who, app, policy: name, action }, "a counter was looked at or changed");
  const subject = JSON.stringify({ policy: name, key: values });
  try {
    const said = after === undefined ? {} : { after: JSON.stringify(after) };
    await trace(request.server.database, origin, { action, app, subject, ...said });
  } catch (error) {
    if (!(error instanceof DatabaseUnwritable)) throw error;
    await request.server.requireStill(request, request.server.database);
    const line = { requestId: request.id, who: origin.who, from: origin.from, app, policy: name, action };
    const what = "disk full: no trace is kept";
    // A viewer may look hundreds of times in a second.
    if (action === "read-counter") request.server.minuteLog.say("error", `${what} ${origin.who}`, line, what);
    else request.log.error(line, what);
  }
}

function shown(
  app: string,
  { policy, values }: AskedCounter,
  limits: readonly CounterReading[] | undefined,
  gateways: readonly CounterAnswer[],
) {
  const { name } = policy;
  const { scope } = policy.policy;
  return {
    app,
    policy: name,
    scope,
    key: values,
    limits: limits?.map(shownLimit),
    gateways: gateways.map(({ gateway, state, limits: own }) => ({
      id: gateway,
      state,
      // For counters in Redis, a gateway's own counters are only a substitute, so they are not shown.
      limits: scope === "node" ? own?.map(shownLimit) : undefined,
    })),
  };
}

/** Rounds up to whole seconds. */
function shownLimit({ name, capacity, remaining, resetAfterUs }: CounterReading) {
  const resetAfter = isEndless({ resetAfterUs }) ? null : Math.ceil(resetAfterUs / 1_000_000);
  return { name, limit: capacity, used: Math.max(0, capacity - remaining), remaining, resetAfter };
}

function planOf(plan: string | undefined): Pick<CounterOrder, "plan"> {
  return plan === undefined ? {} : { plan };
}
