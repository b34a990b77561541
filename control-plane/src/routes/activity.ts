// /api/v1/traffic, /api/v1/apps/{app}/traffic and /top: what the gateways decided, and for which keys.

import { type KeyPart, keyPartText, parseKeyPart, withSecrets } from "@sluice/limiter/key/key-part.ts";
import type { FastifyInstance } from "fastify";
import type { Busy, BusyQuery, CountedTraffic } from "../activity/activity.ts";
import { hoursOf, hoursSinceMs, namesOfHours } from "../activity/hours.ts";
import { digestKeyOf, type KeyReader, showKeys } from "../activity/shown-keys.ts";
import type { KeyResult, Window } from "../activity/top-keys.ts";
import { beginningOf, countedSinceMs, keptSinceMs, type Step, type TrafficPoint } from "../activity/traffic.ts";
import { callerOf } from "../plugins/authentication.ts";
import { type Caller, hasRight } from "../rights/caller.ts";
import { appSegment, limitParameter, policyParameter, querySchema } from "../schemas/parameters.ts";
import { invalidRequest } from "../schemas/read-body.ts";
import { answers } from "../schemas/responses.ts";
import { readMoment, sinceParameter } from "../schemas/since-parameter.ts";
import { readTrafficHours } from "../storage/activity.ts";
import { getApp, listApps } from "../storage/apps.ts";
import { getPolicy } from "../storage/policies.ts";

const params = { type: "object", properties: { app: appSegment } } as const;
const tags = ["activity"];
const minuteMs = 60_000;
const hourMs = 3_600_000;

const windowParameter = {
  type: "string",
  enum: ["minute", "hour"],
  default: "minute",
  description: "Count the requests of the last minute, or of the last hour.",
  "x-expected": "minute or hour",
} as const;

const stepParameter = {
  type: "string",
  enum: ["second", "minute", "hour"],
  description:
    "Return one point for each second, which are kept for an hour, for each minute, which are kept for a day, or for each hour, " +
    "which are kept for 31 days. Default: seconds if `since` is within the last hour, minutes if it is within the last day, else hours.",
  "x-expected": "second, minute or hour",
} as const;

const byParameter = {
  type: "string",
  enum: ["refused", "admitted"],
  default: "refused",
  description: "List those with most of these first.",
  "x-expected": "refused or admitted",
} as const;

export default async function activityRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Params: { app: string }; Querystring: { policy: string; window: Window; limit: number } }>(
    "/apps/:app/top",
    {
      config: { access: "read", refuses: ["app-not-found", "policy-not-found"] },
      schema: {
        tags,
        summary: "List the keys of a policy that were admitted and refused most",
        description:
          "Gateways count keys in bounded memory, so each number is a range: a key had at least `atLeast` requests and at " +
          "most `atMost`, and no other key had more than `othersAtMost`. Requests appear 10 to 15 seconds after they were " +
          "decided, and those that were decided before the policy had its present key do not appear. The last hour outlives a " +
          "restart of the control plane; the last minute begins anew. Who may not change the policy sees a digest in place of " +
          "values that are credentials, which is always the same for one value in one app.",
        params,
        querystring: {
          ...querySchema({
            policy: policyParameter,
            window: windowParameter,
            limit: { ...limitParameter, default: 10 },
          }),
          required: ["policy"],
        },
        response: answers({ 200: "TopKeys" }),
      },
    },
    async (request) => {
      const { policy, window, limit } = request.query;
      const asked = await askedPolicy(app, request.params.app, policy);
      return topKeys(app, callerOf(request), asked, window, limit);
    },
  );

  app.get<{ Params: { app: string }; Querystring: { policy?: string; since: string; step?: Step | "hour" } }>(
    "/apps/:app/traffic",
    {
      config: { access: "read", refuses: ["app-not-found", "policy-not-found"] },
      schema: {
        tags,
        summary: "List what was admitted and refused, by second, minute or hour",
        description:
          "Of one policy, or of all policies of the app together. Times without a decision are left out. A request appears " +
          "within two seconds. Minutes and hours outlive a restart of the control plane; seconds do not.",
        params,
        querystring: querySchema({ policy: policyParameter, since: sinceParameter, step: stepParameter }),
        response: answers({ 200: "Traffic" }),
      },
    },
    async (request) => {
      const { app: name } = request.params;
      const { policy } = request.query;
      const { createdAtMs } = await getApp(app.database, name);
      if (policy !== undefined) await getPolicy(app.database, name, policy);
      const now = app.now();
      const askedMs = readMoment("since", request.query.since, now);
      const { step = defaultStep(askedMs, now) } = request.query;
      const sinceMs = step === "hour" ? hoursSinceMs(askedMs, now) : Math.max(askedMs, keptSinceMs(step, now));
      const asked = { app: name, policy };
      const time = { sinceMs, createdAtMs, nowMs: now };
      const { isComplete, points } =
        step === "hour" ? await hours(app, asked, time) : shortSteps(app, asked, step, time);
      return {
        app: name,
        policy,
        step,
        since: new Date(sinceMs).toISOString(),
        until: new Date(now).toISOString(),
        complete: isComplete,
        points: points.map(showPoint),
      };
    },
  );

  const busyQuery = querySchema({ by: byParameter, since: sinceParameter, limit: limitParameter });

  app.get<{ Params: { app: string }; Querystring: BusyQuery & { since: string } }>(
    "/apps/:app/traffic/policies",
    {
      config: { access: "read", refuses: ["app-not-found"] },
      schema: {
        tags,
        summary: "List the policies of an app that admitted or refused most, with what they refused by minute",
        description:
          "Of the last hour at most. Policies without a decision in this time are left out; policies that were deleted in it are not.",
        params,
        querystring: busyQuery,
        response: answers({ 200: "BusyPolicies" }),
      },
    },
    async (request) => {
      const { app: name } = request.params;
      const { createdAtMs } = await getApp(app.database, name);
      const time = busyTime(request.query.since, app.now(), createdAtMs);
      return {
        app: name,
        ...shownTime(time),
        policies: app.activity
          .busiestPolicies(name, time.sinceMs, request.query)
          .map((busy) => ({ policy: busy.name, ...showBusy(busy, time) })),
      };
    },
  );

  app.get<{ Querystring: BusyQuery & { since: string } }>(
    "/traffic",
    {
      config: { access: "read", strangers: "filtered" },
      schema: {
        tags,
        summary: "List the apps that admitted or refused most, with what they refused by minute",
        description:
          "Of the apps that your token is for, in the last hour at most. Apps without a decision in this time are left out.",
        querystring: busyQuery,
        response: answers({ 200: "BusyApps" }),
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const time = busyTime(request.query.since, app.now());
      const { sinceMs } = time;
      const names = app.activity.countedApps().filter((name) => hasRight(caller, "read", name));
      const existing = new Map(
        (await listApps(app.database, names, "", names.length)).map(({ name, createdAtMs }) => [
          name,
          Math.max(sinceMs, countedSinceMs(createdAtMs, "minute")),
        ]),
      );
      return {
        ...shownTime(time),
        apps: app.activity
          .busiestApps((name) => existing.get(name), request.query)
          .map((busy) => ({ app: busy.name, ...showBusy(busy, time) })),
      };
    },
  );
}

function defaultStep(sinceMs: number, nowMs: number): Step | "hour" {
  return (["second", "minute"] as const).find((step) => sinceMs >= keptSinceMs(step, nowMs)) ?? "hour";
}

/** Of which time traffic is asked for. `createdAtMs` is of the app. */
interface TrafficTime {
  readonly sinceMs: number;
  readonly createdAtMs: number;
  readonly nowMs: number;
}

async function hours({ database, activity }: FastifyInstance, asked: CountedTraffic, time: TrafficTime) {
  return hoursOf(activity, asked, time, await readTrafficHours(database, namesOfHours(asked), time.sinceMs));
}

function shortSteps(
  { activity }: FastifyInstance,
  asked: CountedTraffic,
  step: Step,
  { sinceMs, createdAtMs, nowMs }: TrafficTime,
) {
  return {
    isComplete: activity.isComplete(asked, step, sinceMs),
    points: activity.points(asked, step, Math.max(sinceMs, countedSinceMs(createdAtMs, step)), nowMs + 1),
  };
}

export interface AskedPolicy {
  readonly app: string;
  readonly appSinceMs: number;
  readonly policy: string;
  readonly document: unknown;
}

/** @throws ApiError app-not-found, policy-not-found */
export async function askedPolicy({ database }: FastifyInstance, app: string, policy: string): Promise<AskedPolicy> {
  const { createdAtMs } = await getApp(database, app);
  const { document } = await getPolicy(database, app, policy);
  return { app, appSinceMs: createdAtMs, policy, document };
}

export function topKeys(
  { activity, publisher }: FastifyInstance,
  caller: Caller,
  { app, appSinceMs, policy, document }: AskedPolicy,
  window: Window,
  limit: number,
) {
  const { key: texts = [], secret } = document as { key?: readonly string[]; secret?: Record<string, boolean> };
  const key = withSecrets(
    texts.map((text) => parseKeyPart(text) as KeyPart),
    secret,
  );
  const reader: KeyReader = {
    mayChange: hasRight(caller, "write", app),
    digestKey: digestKeyOf(publisher.state.proofKey, app),
  };
  const counted = { app, policy, key: key.map(keyPartText) };
  const query = { window, limit, sinceMs: appSinceMs };
  const top = (result: KeyResult) => activity.topKeys(counted, result, query);
  const [admitted, refused] = [top("admitted"), top("refused")];
  return {
    app,
    policy,
    window,
    since: new Date(admitted.sinceMs).toISOString(),
    complete: admitted.isComplete && refused.isComplete,
    admitted: showKeys(admitted.keys, key, reader),
    refused: showKeys(refused.keys, key, reader),
    othersAtMost: { admitted: admitted.others, refused: refused.others },
  };
}

export function showPoint({ atMs, ...counts }: TrafficPoint) {
  return { at: new Date(atMs).toISOString(), ...counts };
}

/** Of which time busy policies or apps are listed. */
interface BusyTime {
  /** The beginning of the first minute. */
  readonly sinceMs: number;
  readonly nowMs: number;
}

/** @param createdAtMs of the app, if it is one @throws ApiError invalid-request */
function busyTime(since: string, nowMs: number, createdAtMs = 0): BusyTime {
  const askedMs = readMoment("since", since, nowMs);
  if (askedMs < nowMs - hourMs) {
    throw invalidRequest({ path: "since", expected: "a time within the last hour", got: JSON.stringify(since) });
  }
  return { sinceMs: Math.max(beginningOf("minute", askedMs), countedSinceMs(createdAtMs, "minute")), nowMs };
}

function shownTime({ sinceMs, nowMs }: BusyTime) {
  return { since: new Date(sinceMs).toISOString(), until: new Date(nowMs).toISOString() };
}

function showBusy({ counts, minutes }: Busy, { sinceMs, nowMs }: BusyTime) {
  const refusedByMinute = new Array<number>(Math.floor((nowMs - sinceMs) / minuteMs) + 1).fill(0);
  for (const { atMs, refused } of minutes) refusedByMinute[(atMs - sinceMs) / minuteMs] = refused;
  return { ...counts, refusedByMinute };
}
