// Parts of a configuration that can be missing for a long time before anybody notices. Each is reported when a symptom shows, at
// most once an hour in each nginx, and stays on a list for that hour.

import { stateDict } from "./shared-memory.ts";

const reportedKey = "told-missing:";
const quietSeconds = 3600;

/** By part: what is missing, and what to do about it. */
const parts = {
  log: {
    symptom: "a request ended without sluice.log()",
    advice:
      "where requests pass sluice.access(), call it in the log_by_lua_block of every server, " +
      "and of every location that has such a block of its own. Without it, concurrency slots are freed late, responses are " +
      "not charged by their bytes, and requests that nginx redirects internally count in each location",
  },
  "init-worker": {
    symptom: "sluice.initWorker() was not called",
    advice:
      "call it in an init_worker_by_lua_block of the http block. Without it, this nginx " +
      "receives no policies and no changes of policies",
  },
  redis: {
    symptom: "a policy of scope cluster applies to a request, but SLUICE_REDIS_URL is not set here",
    advice:
      'set it to the value that the control plane has, and write "env SLUICE_REDIS_URL;" into nginx.conf. Without it, such policies ' +
      "are decided by their onStoreFailure",
  },
  consumers: {
    symptom: "a policy has planBy: consumer, and nginx.conf declares no shared dict for consumers",
    advice:
      'add "lua_shared_dict sluice_consumers 160m;" to its http block. Without it, all requests have the default plan',
  },
  "metrics-memory": {
    symptom: "lua_shared_dict sluice_metrics is full",
    advice:
      "decisions of some policies are missing in sluice_decisions_total and counted in " +
      "sluice_unlisted_decisions_total instead. Make the dict larger: it takes 256 bytes for each result of a policy or plan, and for each limit that refuses",
  },
} as const;
type Part = keyof typeof parts;
const inOrder: readonly Part[] = ["init-worker", "log", "redis", "consumers", "metrics-memory"];

/** Called when a request has ended and its log phase did not run Sluice. */
export function reportMissingLog(): void {
  report("log");
}

/** Called when a worker has to decide and sluice.initWorker() has not run in it. */
export function reportMissingInitWorker(): void {
  report("init-worker");
}

/** Called when a policy of scope cluster matches and no Redis is configured. */
export function reportMissingRedis(): void {
  report("redis");
}

/** Called when a policy asks for a consumer's plan and there is no memory for consumers. */
export function reportMissingConsumers(): void {
  report("consumers");
}

/** Called when there is no room for a series of a policy. */
export function reportSmallMetrics(): void {
  report("metrics-memory");
}

function report(part: Part): void {
  if (stateDict.add(reportedKey + part, true, quietSeconds)[0] !== true) return;
  const { symptom, advice } = parts[part];
  ngx.log(ngx.ERR, "sluice: ", symptom, ": ", advice);
}

/** Returns what any worker has reported within the last hour, in short. */
export function missingParts(): string[] {
  return inOrder
    .filter((part) => stateDict.get(reportedKey + part)[0] !== undefined)
    .map((part) => parts[part].symptom);
}
