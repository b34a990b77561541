// The shared dicts that Sluice cannot start without, with the sizes that nginx.conf gives them.

/** By dict, in nginx's notation. */
export const dictSizes = {
  sluice_counters: "64m",
  sluice_overflow: "16m",
  sluice_locks: "1m",
  sluice_state: "112m",
  sluice_metrics: "24m",
} as const;
export type DictName = keyof typeof dictSizes;
export const dictNames: readonly DictName[] = [
  "sluice_counters",
  "sluice_overflow",
  "sluice_locks",
  "sluice_state",
  "sluice_metrics",
];
