// The files of the gateway that read the machine's clock, which operators and time servers set: each says which moment it is, and for what.
// Everything that lasts (pauses, deadlines, ages) goes by runtime/stopwatch.ts instead, which nobody sets. A file that is not here reads no
// such clock; a file that needs one is a mistake, or a decision to write down here.

/** Below gateway/src: why the file needs the machine's clock. */
export const readersOfTheClock: Readonly<Record<string, string>> = {
  "runtime/clock.ts": "it is the clock of this node's counters",

  // Moments of counters, which are compared with the moments in shared memory.
  "stores/node/node-counters.ts": "counters go by it",
  "stores/node/counter-places.ts": "counters go by it",
  "stores/node/packed-cells.ts": "counters go by it",
  "stores/node/deferred-charge.ts": "counters go by it",
  "stores/node/operator-changes.ts": "counters go by it",
  "stores/node/peek.ts": "counters go by it",
  "stores/redis/script-arguments.ts": "windows of the calendar",
  "stores/redis/debts.ts": "windows of the calendar",

  // When Redis was asked, as a moment of the node's counters: the share of a node begins with it. After a step back, Redis is asked again.
  "stores/redis/pending-check.ts": "when a check was sent",
  "stores/redis/submit.ts": "when a check was sent",
  "stores/redis/exact-store.ts": "when a check was sent",
  "stores/redis/refusal-cache.ts": "when a refusal came, and until when it holds",
  "stores/redis/shared-refusals.ts": "until when a refusal holds",
  "stores/lease/admit.ts": "when a check was sent",
  "stores/lease/leases.ts": "translates the stopwatch into moments of the node's counters",
  "redis/epoch.ts": "since when Redis is another instance, compared with when checks were sent; and a new name",

  // Dates that people or the control plane have set, or are told.
  "request/applicability.ts": "the ends of bans, and schedules",
  "check-api/caller-tokens.ts": "the end of a token",
  "push/maintenance.ts": "the ends of bans and tokens",
  "push/activity-reports.ts": "the control plane is told when",
  "metrics/activity.ts": "the control plane is told when",
  "metrics/redis-health.ts": "the control plane is told since when",
  "respond/refuse.ts": "a client is told when to try again",
  "respond/explain.ts": "an editor is told when",

  // At every request, where nginx's cached time costs nothing and the stopwatch is a call of the system. Each takes a step in either direction
  // for time that has passed.
  "consumers/consumers.ts": "looks again after 0.2 seconds, or if the clock has stepped",
  "stores/node/counter-memory.ts": "looks again after 10 ms, or if the clock has stepped",
  "stores/redis/batcher.ts": "a call that is still under way after a long time, or after a step, is taken for lost",
  "runtime/sparing-log.ts": "writes a line a second, and another one after a step",
  "respond/shadow-report.ts": "writes a line a second, and another one after a step",
};
