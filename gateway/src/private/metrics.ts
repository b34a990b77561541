// GET /sluice/metrics, in the Prometheus text format. It is on the private listener only, because it shows names of apps and
// policies.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { SnapshotCaller } from "../../../limiter/src/state/entries.ts";
import { checkStatuses } from "../check-api/check-errors.ts";
import { consumerCount, consumersState } from "../consumers/held.ts";
import { unstoredCount } from "../consumers/shares.ts";
import { type CallerResult, callerResults, callersDecisions } from "../metrics/caller-counts.ts";
import { checkCount, countOf, decisionResults, eventCount } from "../metrics/counts.ts";
import {
  leaseEvents,
  leaseUnitStates,
  leaseUnits,
  leaseUnitsAdmitted,
  leaseUnitsExcess,
  leaseUnitsOut,
} from "../metrics/lease-counts.ts";
import { overloadDecisions } from "../metrics/overload-state.ts";
import {
  batchCount,
  batchedCounters,
  callBuckets,
  forgottenUnits,
  lateUnits,
  recalledCount,
  redisCallCounts,
  redisCallSeconds,
  redisFailureCount,
  redisFailures,
} from "../metrics/redis-calls.ts";
import { redisIdentities } from "../metrics/redis-health.ts";
import { partsOf, type SeriesKind } from "../metrics/series.ts";
import { defectCount, defectPlaces } from "../runtime/defects.ts";
import { consumersDict, countersDict, overflowDict } from "../runtime/shared-memory.ts";
import { besideRequests, longestSliceSeconds } from "../runtime/slices.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import { publishedState, type WorkerState } from "../runtime/worker-states.ts";
import { currentState } from "../snapshot/current.ts";
import { isConnected, liveGateways } from "../snapshot/live-gateways.ts";
import { version } from "../version.ts";

const mostLinesAtOnce = 100;

export function metrics(): void {
  ngx.header["Content-Type"] = "text/plain; version=0.0.4; charset=utf-8";
  besideRequests(answer);
}

function answer(this: void, pause: Pause): void {
  let lines: string[] = [];
  heading(lines, "sluice_build_info", "gauge", "Versions of Sluice, nginx and ngx_lua. The value is always 1.");
  const { nginx_version: nginx, ngx_lua_version: lua } = ngx.config;
  lines.push(sample("sluice_build_info", { version, nginx: dotted(nginx), ngx_lua: dotted(lua) }, "1"));
  errors(lines);
  printLines(lines);
  printDecisions(pause);
  lines = [];
  heading(lines, "sluice_check_requests_total", "counter", "Requests of the check API by status.");
  for (const status of checkStatuses) {
    lines.push(sample("sluice_check_requests_total", { status: `${status}` }, whole(checkCount(status))));
  }
  printLines(lines);
  printCallers(pause);
  lines = [];
  redisCalls(lines);
  leases(lines);
  gauge(lines, "sluice_workers", "Worker processes of this nginx.", ngx.worker.count());
  ofWorkers(
    lines,
    "sluice_lua_memory_bytes",
    "Lua memory in use, including garbage that is not yet collected.",
    "lua-memory",
  );
  ofWorkers(lines, "sluice_waiting_requests", "Requests that wait now, for units and for their turn.", "waiting");
  ofWorkers(lines, "sluice_snapshot_revision", "Revision of the snapshot that the worker uses.", "revision");
  ofWorkers(lines, "sluice_snapshot_policies", "Policies in the snapshot that the worker uses.", "policies");
  const age = "Seconds since the worker's snapshot came into force.";
  ofWorkers(lines, "sluice_snapshot_age_seconds", age, "in-force-since", (at) => stopwatchSeconds() - at);
  gauge(
    lines,
    "sluice_snapshot_slice_max_seconds",
    "Longest time that a worker loaded a snapshot without a pause.",
    longestSliceSeconds(),
  );
  gauge(lines, "sluice_push_connected", "1 while the control plane is connected.", isConnected() ? 1 : 0);
  heading(
    lines,
    "sluice_redis_workers",
    "gauge",
    "Workers that use the Redis with this identity: its key sluice:epoch.",
  );
  for (const { id, workers } of redisIdentities()) {
    lines.push(sample("sluice_redis_workers", { redis: id }, whole(workers)));
  }
  ofWorkers(
    lines,
    "sluice_redis_breakers_open",
    "Redis servers that the worker sends nothing to, because they fail.",
    "open-breakers",
  );
  overload(lines);
  gauge(
    lines,
    "sluice_live_gateways",
    "Live gateways of the fleet, as last reported by the control plane.",
    liveGateways(),
  );
  gauge(lines, "sluice_counters_capacity_bytes", "Size of the shared dict of counters.", countersDict.capacity());
  gauge(
    lines,
    "sluice_counters_free_bytes",
    "Bytes in free pages of the shared dict of counters.",
    countersDict.free_space(),
  );
  gauge(
    lines,
    "sluice_overflow_capacity_bytes",
    "Size of the shared dict of overflow counters.",
    overflowDict.capacity(),
  );
  gauge(
    lines,
    "sluice_overflow_free_bytes",
    "Bytes in free pages of the shared dict of overflow counters.",
    overflowDict.free_space(),
  );
  consumers(lines);
  heading(
    lines,
    "sluice_overflow_decisions_total",
    "counter",
    "Decisions by counters that several keys share because memory was full, by result.",
  );
  for (const result of ["allowed", "refused"] as const) {
    const count = eventCount(result === "allowed" ? "overflow-admissions" : "overflow-refusals");
    lines.push(sample("sluice_overflow_decisions_total", { result }, whole(count)));
  }
  total(
    lines,
    "sluice_uncounted_refusals_total",
    "Requests that were refused because there was no memory to count them.",
    eventCount("uncounted-refusals"),
  );
  total(
    lines,
    "sluice_lock_timeouts_total",
    "Charges made without their lock, after a timeout.",
    eventCount("lock-timeouts"),
  );
  total(lines, "sluice_evictions_total", "Counters evicted because memory was full.", eventCount("evictions"));
  total(
    lines,
    "sluice_unstored_charges_total",
    "Responses that were not charged because there was no memory.",
    eventCount("unstored-charges"),
  );
  total(
    lines,
    "sluice_unsettled_responses_total",
    "Responses that were sent but not charged, because Redis failed or too many charges waited.",
    eventCount("unsettled-responses"),
  );
  total(
    lines,
    "sluice_late_renewals_total",
    "Renewals of concurrency slots that came too late: the slots were already lost.",
    eventCount("late-renewals"),
  );
  total(
    lines,
    "sluice_banned_requests_total",
    "Requests that were refused because their address or their key is banned.",
    eventCount("banned-requests"),
  );
  total(
    lines,
    "sluice_waiting_refusals_total",
    "Requests that were refused because too many requests waited already.",
    eventCount("waiting-refusals"),
  );
  total(
    lines,
    "sluice_unlisted_decisions_total",
    "Decisions missing in sluice_decisions_total, because there was no memory for their series.",
    eventCount("unlisted-decisions"),
  );
  printLines(lines);
}

function printLines(lines: readonly string[]): void {
  ngx.print(`${lines.join("\n")}\n`);
}

/** Prints the series of the policies, plans and limits in force, so the snapshot bounds their number. */
function printDecisions(pause: Pause): void {
  const policies = policiesInForce();
  const outcomes =
    "Decisions by policy, plan and result. They add up: each has one result, and one plan unless the policy has no plans or an override applies.";
  printSeries(policies, "sluice_decisions_total", outcomes, decisionResults, pause);
  const delayed =
    "Decisions after which the request waited, or its caller was told to. They are among those with the result allowed.";
  printSeries(policies, "sluice_delayed_decisions_total", delayed, "delayed", pause);
  const degraded = "Decisions that Redis did not make. They are among those with the result that onStoreFailure made.";
  printSeries(policies, "sluice_degraded_decisions_total", degraded, "degraded", pause);
  const requests = "Requests and checks that a limit refused, by the limit that their answers name.";
  printSeries(policies, "sluice_refused_requests_total", requests, "refused-requests", pause);
}

/**
 * There may be tens of thousands, with names so long that LuaJIT's hash would not distinguish the lines. So they are printed in pieces, and no
 * line becomes a string of its own. Names are [a-z0-9-] and need no escaping.
 *
 * @param counted the results that are a label, or the one kind that is counted
 */
function printSeries(
  policies: readonly CompiledPolicy[],
  metric: string,
  help: string,
  counted: typeof decisionResults | SeriesKind,
  pause: Pause,
): void {
  const headings: string[] = [];
  heading(headings, metric, "counter", help);
  printLines(headings);
  let lines: string[][] = [];
  const kinds = typeof counted === "string" ? [counted] : counted;
  const label = counted === "refused-requests" ? '",limit="' : '",plan="';
  for (const policy of policies) {
    for (const part of partsOf(kinds[0] as SeriesKind, policy)) {
      for (const kind of kinds) {
        const count = countOf(kind, policy, part);
        if (count === undefined) continue;
        const { app, name } = policy;
        const ofPart = part === "" ? "" : label + part;
        const ofResult = kind === counted ? "" : `",result="${kind}`;
        lines.push([metric, '{app="', app, '",policy="', name, ofPart, ofResult, '"} ', whole(count), "\n"]);
      }
    }
    if (lines.length >= mostLinesAtOnce) {
      ngx.print(lines);
      lines = [];
    }
    pause();
  }
  ngx.print(lines);
}

/** Collected in one go: a change that comes between two steps would confuse the iteration. It takes some 20 ns for each policy. */
function policiesInForce(): CompiledPolicy[] {
  const policies: CompiledPolicy[] = [];
  const { policiesByName } = currentState();
  for (const app in policiesByName) {
    const ofApp = policiesByName[app] ?? {};
    for (const name in ofApp) policies.push(ofApp[name] as CompiledPolicy);
  }
  return policies;
}

interface CallersCounts {
  readonly app: string;
  readonly caller: string;
  readonly counts: Record<CallerResult, number>;
}

/** Tokens of an app that have one name are one caller. A caller that has asked nothing has no series. */
function printCallers(pause: Pause): void {
  const tokens: SnapshotCaller[] = [];
  const { callers } = currentState();
  for (const sha256 in callers) tokens.push(callers[sha256] as SnapshotCaller);
  const byName = emptyTable<CallersCounts>();
  const names: string[] = [];
  for (const { app, sha256, name = sha256.slice(0, 8) } of tokens) {
    const [allowed, refused] = [callersDecisions(sha256, "allowed"), callersDecisions(sha256, "refused")];
    pause();
    if (allowed + refused === 0) continue;
    const key = `${app}/${name}`;
    const known = byName[key] ?? { app, caller: name, counts: { allowed: 0, refused: 0 } };
    if (byName[key] === undefined) names.push(key);
    byName[key] = known;
    known.counts.allowed += allowed;
    known.counts.refused += refused;
  }
  const lines: string[] = [];
  const metric = "sluice_check_decisions_total";
  heading(lines, metric, "counter", "Decisions of the check API by caller: the name of the token.");
  for (const key of names) {
    const { app, caller, counts } = byName[key] as CallersCounts;
    for (const result of callerResults) lines.push(sample(metric, { app, caller, result }, whole(counts[result])));
  }
  printLines(lines);
}

function redisCalls(lines: string[]): void {
  const name = "sluice_redis_call_duration_seconds";
  heading(lines, name, "histogram", "Duration of calls to Redis, including the wait for a connection.");
  const counts = redisCallCounts();
  let calls = 0;
  for (let i = 0; i < counts.length; i++) {
    calls += counts[i] as number;
    lines.push(sample(`${name}_bucket`, { le: callBuckets[i] ?? "+Inf" }, whole(calls)));
  }
  lines.push(`${name}_sum ${decimal(redisCallSeconds())}`, `${name}_count ${whole(calls)}`);
  total(lines, "sluice_redis_batches_total", "Script calls that several requests shared.", batchCount());
  total(lines, "sluice_redis_batched_counters_total", "Counters decided by these shared calls.", batchedCounters());
  total(
    lines,
    "sluice_redis_refusals_remembered_total",
    "Requests refused without a call, as Redis refused before.",
    recalledCount(),
  );
  heading(lines, "sluice_redis_failures_total", "counter", "Calls to Redis without a decision, by kind of failure.");
  for (const kind of redisFailures) {
    lines.push(sample("sluice_redis_failures_total", { kind }, whole(redisFailureCount(kind))));
  }
  const late = "Units that were taken while Redis did not decide, and that were reported to it afterwards.";
  total(lines, "sluice_redis_late_units_total", late, lateUnits());
  const forgotten = "Units that were taken while Redis did not decide, and that will never be reported to it.";
  total(lines, "sluice_redis_forgotten_units_total", forgotten, forgottenUnits());
}

function overload(lines: string[]): void {
  const help = "1 while a worker decides by this gateway's share by choice, because Redis is overloaded.";
  ofWorkers(lines, "sluice_overloaded", help, "overloaded");
  const counted =
    "Decisions without Redis by choice, because it is overloaded. sluice_degraded_decisions_total has them, too.";
  total(lines, "sluice_overload_decisions_total", counted, overloadDecisions());
}

function leases(lines: string[]): void {
  heading(lines, "sluice_lease_units_total", "counter", "Units of leases by state.");
  for (const state of leaseUnitStates) {
    lines.push(sample("sluice_lease_units_total", { state }, whole(leaseUnits(state))));
  }
  gauge(lines, "sluice_lease_units_out", "Granted units whose use is not known yet.", leaseUnitsOut());
  total(lines, "sluice_lease_admitted_units_total", "Units admitted from leases.", leaseUnitsAdmitted());
  const excess = "Units admitted from leases beyond what Redis granted. It must be 0.";
  gauge(lines, "sluice_lease_excess_units", excess, leaseUnitsExcess());
  total(lines, "sluice_lease_grants_total", "Replies of Redis that granted units.", leaseEvents("grants"));
  total(lines, "sluice_lease_exchanges_total", "Messages about leases sent to Redis.", leaseEvents("exchanges"));
  total(lines, "sluice_lease_lost_replies_total", "Messages about leases without a reply.", leaseEvents("lost"));
}

/** Nothing, if this nginx has no memory for consumers. */
function consumers(lines: string[]): void {
  if (consumersDict === undefined) return;
  gauge(lines, "sluice_consumers", "Consumers that this nginx knows.", consumerCount());
  gauge(
    lines,
    "sluice_consumers_position",
    "Position of the last change of a consumer that this nginx has.",
    consumersState().position,
  );
  gauge(
    lines,
    "sluice_consumers_unstored",
    "Consumers that found no memory, and have the default plan here.",
    unstoredCount(),
  );
  gauge(lines, "sluice_consumers_capacity_bytes", "Size of the shared dict of consumers.", consumersDict.capacity());
  gauge(
    lines,
    "sluice_consumers_free_bytes",
    "Bytes in free pages of the shared dict of consumers.",
    consumersDict.free_space(),
  );
}

function errors(lines: string[]): void {
  const name = "sluice_errors_total";
  heading(
    lines,
    name,
    "counter",
    "Errors of Sluice itself by place. Each must be 0; access: requests passed without a decision, or their paths could not be read.",
  );
  for (const place of defectPlaces) lines.push(sample(name, { place }, whole(defectCount(place))));
}

/** Prints what each worker has published. @param made what to print instead of the published number */
function ofWorkers(
  lines: string[],
  name: string,
  help: string,
  state: WorkerState,
  made: (published: number) => number = (published) => published,
): void {
  heading(lines, name, "gauge", help);
  for (let id = 0; id < ngx.worker.count(); id++) {
    const published = publishedState(state, id);
    if (published !== undefined) lines.push(sample(name, { worker: `${id}` }, numberText(made(published))));
  }
}

function gauge(lines: string[], name: string, help: string, value: number): void {
  heading(lines, name, "gauge", help);
  lines.push(`${name} ${numberText(value)}`);
}

function numberText(value: number): string {
  return value === math.floor(value) ? whole(value) : decimal(value);
}

function total(lines: string[], name: string, help: string, value: number): void {
  heading(lines, name, "counter", help);
  lines.push(`${name} ${whole(value)}`);
}

function heading(lines: string[], name: string, type: string, help: string): void {
  lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
}

function sample(name: string, labels: Readonly<Record<string, string>>, value: string): string {
  const pairs: string[] = [];
  for (const label in labels) pairs.push(`${label}="${escaped(labels[label] as string)}"`);
  // Lua tables have no order, and an exposition whose labels change order is hard to read.
  pairs.sort();
  return `${name}{${pairs.join(",")}} ${value}`;
}

function escaped(value: string): string {
  return string.gsub(string.gsub(value, '[\\"]', "\\%0")[0], "\n", "\\n")[0];
}

/** By default Lua writes large numbers with an exponent, and with 14 digits only. */
function whole(value: number): string {
  return string.format("%.0f", value);
}

function decimal(value: number): string {
  return string.format("%.6f", value);
}

/** Example: 1022001 is 1.22.1. */
function dotted(version: number): string {
  const patch = version % 1000;
  const minor = ((version - patch) / 1000) % 1000;
  return `${math.floor(version / 1_000_000)}.${minor}.${patch}`;
}
