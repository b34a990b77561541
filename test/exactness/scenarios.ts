// The scenarios: which fleet gets which crowd beside what. Each has a limit of its own, and one thing that makes the machine late.

export interface CrowdScenario {
  readonly name: string;
  readonly what: string;
  readonly gateways: number;
  readonly algorithm: "fixed-window" | "token-bucket";
  readonly consistency: "exact" | "leased";
  readonly quota: number;
  /** Requests at once, each on a connection of its own. */
  readonly offered: number;
  readonly busyLoops: number;
  /** The default number of runs. */
  readonly times: number;
}

/** The window is so long that a bucket, whose burst is its quota, refills not a single unit during a run. */
export const crowdWindow = "1d";

export const busyLoops = 4;

const small = { gateways: 2, quota: 100, offered: 500 };
const large = { gateways: 4, quota: 1000, offered: 5000 };

export const crowdScenarios: readonly CrowdScenario[] = [
  crowd("idle-500", small, {}),
  crowd("busy-500", small, { busyLoops }),
  crowd("idle-5000", large, {}),
  crowd("busy-5000", large, { busyLoops }),
  crowd("idle-500-bucket", small, { algorithm: "token-bucket", times: 5 }),
  crowd("busy-500-bucket", small, { algorithm: "token-bucket", times: 5, busyLoops }),
  crowd("idle-5000-bucket", large, { algorithm: "token-bucket", times: 5 }),
  crowd("busy-5000-bucket", large, { algorithm: "token-bucket", times: 5, busyLoops }),
  crowd("busy-5000-leased", large, { consistency: "leased", times: 5, busyLoops }),
];

export const bgsaveName = "bgsave";

function crowd(
  name: string,
  size: Pick<CrowdScenario, "gateways" | "quota" | "offered">,
  options: Partial<Pick<CrowdScenario, "algorithm" | "consistency" | "busyLoops" | "times">>,
): CrowdScenario {
  const { algorithm = "fixed-window", consistency = "exact", busyLoops = 0, times = 20 } = options;
  const beside = busyLoops === 0 ? "machine idle" : `beside ${busyLoops} busy loops`;
  const limit = `${consistency} ${algorithm} ${size.quota}/${crowdWindow}`;
  const what = `${size.offered} at once, ${size.gateways} gateways, ${limit}, ${beside}`;
  return { name, what, ...size, algorithm, consistency, busyLoops, times };
}
