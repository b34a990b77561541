// Deliberate breaks of one line each in the gateway's sources, which show that the oracle finds what it must find: `npm run oracle -- --break NAME`,
// or `--break all`.

import type { Break } from "../parity/breaks.ts";

export type OracleBreak = Pick<Break, "name" | "file" | "line" | "becomes"> & {
  /** Where it is looked for; absent: on a node. */
  readonly scope?: "cluster";
};

const algorithms = "limiter/src/algorithms";
const compiled = "limiter/src/compiled";
const request = "gateway/src/request";

function broken(name: string, file: string, line: string, becomes: string, scope?: "cluster"): OracleBreak {
  return { name, file, line, becomes, ...(scope === undefined ? {} : { scope }) };
}

const deferredCharge = `${algorithms}/deferred-charge.ts`;
const tokenBucket = `${algorithms}/token-bucket.ts`;
const shapedBucket = `${algorithms}/shaped-bucket.ts`;
const leakyBucket = `${algorithms}/leaky-bucket.ts`;
const fixedWindow = `${algorithms}/fixed-window.ts`;
const slidingWindow = `${algorithms}/sliding-window.ts`;
const merged = `${compiled}/merged-decision.ts`;
const refusalCache = "gateway/src/stores/redis/refusal-cache.ts";
const charge = "gateway/src/redis-scripts/charge.ts";
const chargeBatch = "gateway/src/redis-scripts/charge-batch.ts";

const clientPlan = `${request}/client-plan.ts`;
const schedule = "limiter/src/document/schedule.ts";
const checks = "gateway/src/check-api/decide.ts";
const evaluate = "gateway/src/decide/evaluate.ts";

export const breaks: readonly OracleBreak[] = [
  broken("token-bucket: a full debt is refused", tokenBucket, "rest <= bucket.fullRest);", "rest < bucket.fullRest);"),
  broken("token-bucket: fractions are lost", tokenBucket, "rest = restAfter % bucket.quota;", "rest = 0;"),
  broken(
    "token-bucket: the past counts as debt",
    tokenBucket,
    "    atUs = nowUs;\n    rest = 0;\n  } else",
    "    rest = 0;\n  } else",
  ),
  broken(
    "token-bucket: a clock that stepped back is waited for",
    tokenBucket,
    "- bucket.fullUs - bucket.toleranceUs;",
    "- bucket.fullUs - 86400000000;",
  ),
  broken(
    "token-bucket: waits are rounded down",
    tokenBucket,
    "Math.ceil((state.nextCount - bucket.fullRest) / bucket.quota)",
    "Math.floor((state.nextCount - bucket.fullRest) / bucket.quota)",
  ),
  broken(
    "token-bucket: a started µs of the reset is dropped",
    tokenBucket,
    "owedRest > 0 ? owedUs + 1 : owedUs",
    "owedUs",
  ),
  broken(
    "token-bucket: a refund forgets the whole µs",
    tokenBucket,
    "state.atUs - cost * bucket.unitUs - returned.quotient;",
    "state.atUs - returned.quotient;",
  ),
  broken(
    "token-bucket: what is left is rounded up",
    tokenBucket,
    "unitsIn(bucket, bucket.fullUs - owedUs, bucket.fullRest - owedRest)",
    "unitsIn(bucket, bucket.fullUs - owedUs + 1, bucket.fullRest - owedRest)",
  ),
  broken(
    "shaped-bucket: the clock begins a little later",
    shapedBucket,
    "return Math.ceil(warmUpUs / 3);",
    "return Math.floor(warmUpUs / 3) - 1;",
  ),
  broken(
    "shaped-bucket: the rate grows from the half",
    shapedBucket,
    "multiplyDivide(ageUs, warmUpUs + ageUs, 3 * warmUpUs)",
    "multiplyDivide(ageUs, warmUpUs + ageUs, 2 * warmUpUs)",
  ),
  broken(
    "shaped-bucket: it begins full",
    shapedBucket,
    "multiplyDivide(burst - units, windowUs, quota)",
    "multiplyDivide(0 * (burst - units), windowUs, quota)",
  ),
  broken(
    "shaped-bucket: a step back keeps the old beginning",
    shapedBucket,
    "if (ageUs < -bucket.toleranceUs) {",
    "if (ageUs < -86400000000) {",
  ),
  broken(
    "leaky-bucket: there is no room for the one that departs",
    leakyBucket,
    'bucketOf("leaky-bucket", quota, windowUs, burst + 1)',
    'bucketOf("leaky-bucket", quota, windowUs, burst)',
  ),
  broken(
    "leaky-bucket: a request waits for its own units, too",
    leakyBucket,
    "- cost * bucket.unitUs - own.quotient;",
    "- own.quotient;",
  ),
  broken(
    "fixed-window: one more is admitted",
    fixedWindow,
    "return state.nextCount <= limit.quota;",
    "return state.nextCount <= limit.quota + 1;",
  ),
  broken(
    "fixed-window: a step back begins anew",
    fixedWindow,
    "      state.atUs = startUs;\n",
    "      state.atUs = startUs;\n      used = 0;\n",
  ),
  broken(
    "fixed-window: it waits for every step back",
    fixedWindow,
    "if (state.atUs - nowUs <= limit.toleranceUs) {",
    "if (state.atUs - nowUs <= 86400000000) {",
  ),
  broken(
    "fixed-window: the reset is a µs early",
    fixedWindow,
    "openUs + limit.windowUs - nowUs : endless;",
    "openUs + limit.windowUs - nowUs - 1 : endless;",
  ),
  broken(
    "fixed-window: a top-up goes below nothing",
    fixedWindow,
    "state.count > cost ? state.count - cost : 0;",
    "state.count - cost;",
  ),
  broken(
    "calendar: the offset of a zone never changes",
    "limiter/src/document/calendar.ts",
    "const moment = shown - offsetAt(transitions, place) * 60;",
    "const moment = shown - offsetAt(transitions, 0) * 60;",
  ),
  broken(
    "charge-all: only the first limit decides",
    `${algorithms}/charge-all.ts`,
    "if (!counter.allowed) all = false;",
    "if (!counter.allowed && i === 0) all = false;",
  ),
  broken(
    "sliding-window: a unit returns a block early",
    slidingWindow,
    "(windowUs + tickUs - 2) / tickUs",
    "(windowUs - 2) / tickUs",
  ),
  broken(
    "sliding-window: units stay where the clock was",
    slidingWindow,
    "state.atUs > reachedUs) {",
    "state.atUs < reachedUs) {",
  ),
  broken(
    "sliding-window: moved units return early",
    slidingWindow,
    "nowUs === tickAtUs ? tickAtUs : tickAtUs + limit.tickUs;",
    "tickAtUs;",
  ),
  broken(
    "sliding-window: the oldest expires a block late",
    slidingWindow,
    "if (age(state, ring, 0, tick) <= limit.ticks) return;",
    "if (age(state, ring, 0, tick) <= limit.ticks + 1) return;",
  ),
  broken(
    "sliding-window: the wait is that of the newest units",
    slidingWindow,
    "decision.retryAfterUs = lastUs - untilLastUs(limit, state, ring, state.count + cost - limit.quota);",
    "decision.retryAfterUs = lastUs - 0 * untilLastUs(limit, state, ring, cost);",
  ),
  broken(
    "sliding-window: the wait is for one unit less",
    slidingWindow,
    "ring, state.count + cost - limit.quota);",
    "ring, state.count + cost - limit.quota - 1);",
  ),
  broken(
    "sliding-window: a top-up takes the oldest",
    slidingWindow,
    "let left = Math.min(units, state.count);",
    "let left = Math.min(units - 1, state.count);",
  ),
  broken(
    "headers: the limit with the most units is shown",
    merged,
    "return a.remaining < b.remaining;",
    "return a.remaining > b.remaining;",
  ),
  broken(
    "headers: the shorter wait is shown",
    merged,
    "a.retryAfterUs > b.retryAfterUs);",
    "a.retryAfterUs < b.retryAfterUs);",
  ),
  broken(
    "headers: seconds are rounded down",
    "limiter/src/header-values.ts",
    "return Math.ceil(Math.min(us, maxExact) / 1_000_000);",
    "return Math.floor(Math.min(us, maxExact) / 1_000_000);",
  ),
  broken(
    "headers: Retry-After may be 0",
    "limiter/src/header-values.ts",
    "return Math.max(1, wholeSeconds(decision.retryAfterUs));",
    "return wholeSeconds(decision.retryAfterUs);",
  ),
  broken(
    "applicability: exempt keys are counted",
    `${request}/applicability.ts`,
    'if (exempt !== undefined && isExemptKey(policy, values)) return "exempt";',
    'if (exempt !== undefined && isExemptKey(policy, values) && values.length > 9) return "exempt";',
  ),
  broken(
    "applicability: exempt networks are counted",
    `${request}/applicability.ts`,
    'isExemptAddress(policy, address) ? "exempt" : "applies";',
    'isExemptAddress(policy, address) ? "applies" : "applies";',
  ),
  broken(
    "applicability: plans go before overrides",
    `${request}/applicability.ts`,
    "return overrideFor(policy, values) ?? policyOfClient(policy, values, plan);",
    "return policyOfClient(policy, values, plan) ?? overrideFor(policy, values);",
  ),
  broken(
    "applicability: an override cannot switch off",
    `${request}/applicability.ts`,
    'return applied.policy.policy.mode === "off" ? "off" : "applies";',
    'return "applies";',
  ),
  broken(
    "costs: the stated cost is ignored",
    `${request}/applicability.ts`,
    "applied.policy = pricedPolicy(applied.policy, cost);",
    "applied.policy = pricedPolicy(applied.policy, 1);",
  ),
  broken("evaluate: an over-limit mark refuses", evaluate, "    own.merged.decision.allowed = true;\n", ""),
  broken(
    "refusals: a remembered one lasts a second longer",
    refusalCache,
    "untilSeconds: submittedAtSeconds + math.min(retrySeconds, mostSeconds),",
    "untilSeconds: submittedAtSeconds + math.min(retrySeconds + 1, mostSeconds),",
    "cluster",
  ),
  broken(
    "refusals: a remembered one says the first wait",
    refusalCache,
    "math.ceil((refusal.retryAtSeconds - now) * 1_000_000);",
    "math.ceil((refusal.retryAtSeconds - refusal.submittedAtSeconds) * 1_000_000);",
    "cluster",
  ),
  broken(
    "redis: what is refused is charged",
    chargeBatch,
    "if (allowed) charge(rate, state, redisRing);",
    "charge(rate, state, redisRing);",
    "cluster",
  ),
  broken(
    "redis: a clock that stepped back is not saved",
    charge,
    "if (allowed || counter.stepped) saveCounter",
    "if (allowed) saveCounter",
    "cluster",
  ),
  broken(
    "consumers: the plan of a consumer is ignored",
    clientPlan,
    "policyInPlan(policy, ofConsumer);",
    "policyInPlan(policy, ofConsumer === plan ? ofConsumer : undefined);",
  ),
  broken(
    "consumers: their own limits are ignored",
    clientPlan,
    "if (overrides === undefined) return inPlan;",
    "if (overrides === undefined || overrides.length > 0) return inPlan;",
  ),
  broken(
    "consumers: the last value of the key names them",
    clientPlan,
    'consumerOf(policy.app, values[0] ?? "");',
    'consumerOf(policy.app, values[values.length - 1] ?? "");',
  ),
  broken(
    "schedules: a window ends a second late",
    schedule,
    "second >= from && second < to)",
    "second >= from && second < to + 1)",
  ),
  broken(
    "schedules: they go by UTC",
    schedule,
    "nowSeconds + offsetMinutes * 60 -",
    "nowSeconds + 0 * offsetMinutes -",
  ),
  broken(
    "schedules: the night to Monday ends at midnight",
    schedule,
    "if (to > weekSeconds) spans.push({ from: 0, to: to - weekSeconds });",
    "if (to > weekSeconds + daySeconds) spans.push({ from: 0, to: to - weekSeconds });",
  ),
  broken(
    "schedules: a clock that stepped back is noticed at the next window",
    `${request}/applicability.ts`,
    "now < state.fromSeconds || now >= state.untilSeconds",
    "now >= state.untilSeconds",
  ),
  broken(
    "checks: costs of the same key are not added",
    checks,
    "outcome.cost = isReport ? outcome.cost + cost : math.min(outcome.cost + cost, mostCost);",
    "outcome.cost = isReport ? cost : math.min(cost, mostCost);",
  ),
  broken(
    "checks: a peek is decided with the others",
    checks,
    "if (outcome.isPeek) peeks.push(outcome);",
    "if (outcome.isPeek && outcome.cost > 99) peeks.push(outcome);",
  ),
  broken(
    "checks: what others refuse stays charged",
    checks,
    "if (isRefused) takeBack(distinct, charges);",
    "if (!isRefused) takeBack(distinct, charges);",
  ),
  broken(
    "checks: Redis keeps what others refuse",
    checks,
    "if (isRefused) takeBack(distinct, charges);",
    "if (isRefused && inFleet.length === 0) takeBack(distinct, charges);",
    "cluster",
  ),
  broken(
    "checks: Redis charges a peek",
    checks,
    "if (outcome.isPeek) peeks.push(outcome);",
    "if (outcome.isPeek && isOnNode(outcome)) peeks.push(outcome);",
    "cluster",
  ),
  broken(
    "checks: the plan of a check is ignored",
    "gateway/src/check-api/requested-policy.ts",
    "const applied = limitsFor(policy, values, plan);",
    "const applied = limitsFor(policy, values, plan === undefined ? plan : undefined);",
  ),
  broken(
    "responses: a debt is not waited for",
    deferredCharge,
    "if (decision.retryAfterUs !== never) decision.retryAfterUs += unpaidUs;",
    "decision.retryAfterUs += 0;",
  ),
  broken(
    "responses: the last part of a debt is one unit",
    deferredCharge,
    "owed = Math.min(owed - periods * rate.quota, rate.quota);",
    "owed = Math.min(owed - periods * rate.quota, 1);",
  ),
  broken(
    "responses: of those that end together, one is charged",
    "gateway/src/charging/deferred-charges.ts",
    "earlier.units += units;",
    "earlier.units = units;",
  ),
  broken(
    "degrade: its response has the status 200",
    "gateway/src/respond/over-limit.ts",
    "return answer(response.status,",
    "return answer(200,",
  ),
  broken(
    "degrade: no header says so",
    "gateway/src/respond/marks.ts",
    'onLimit.action === "tag" || onLimit.action === "degrade" ? onLimit.header',
    'onLimit.action === "tag" ? onLimit.header',
  ),
  broken(
    "lifetimes: a refusal says a time",
    fixedWindow,
    "decision.retryAfterUs = ends && cost <= limit.quota ?",
    "decision.retryAfterUs = cost <= limit.quota ?",
    "cluster",
  ),
  broken(
    "lifetimes: headers say when they end",
    "limiter/src/header-values.ts",
    "return resetAfterUs >= endless / 2;",
    "return resetAfterUs >= endless * 2;",
    "cluster",
  ),
  broken(
    "evaluate: a policy in shadow mode counts last",
    evaluate,
    'if (policy.policy.mode === "shadow") {',
    'if (policy.policy.mode === "shadow" && inFleet === undefined) {',
    "cluster",
  ),
];
