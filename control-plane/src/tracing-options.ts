// How traces are sampled and sent, if they are configured.

export const samplers = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;
export type SamplerName = (typeof samplers)[number];

export interface TracingOptions {
  readonly sampler: SamplerName;
  /** The part of all traces that is kept, for samplers by ratio: 0 to 1. */
  readonly ratio: number;
  /** How long spans are collected before they are sent together. */
  readonly sendEveryMs: number;
}
