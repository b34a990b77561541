// The speed targets that this bench checks, each with the figures that decide it.
import type { Figures } from "./figures.ts";
import { ratio } from "./statistics.ts";

export interface TargetResult {
  readonly target: string;
  readonly what: string;
  /** Undefined if it was not measured in this run. */
  readonly value: number | undefined;
  readonly wanted: string;
  readonly met: boolean | undefined;
}

type Value = (find: (name: string) => Figures) => number | undefined;

interface Target {
  readonly id: string;
  readonly what: string;
  readonly value: Value;
  readonly atMost?: number;
  readonly atLeast?: number;
}

const cpuOf =
  (name: string, baseline: string): Value =>
  (find) =>
    ratio(find(name).rounds, find(baseline).rounds, (run) => run.nginxCpuUs);
const speedOf =
  (name: string, baseline: string): Value =>
  (find) =>
    ratio(find(name).rounds, find(baseline).rounds, (run) => run.requestsPerSecond);

const targets: readonly Target[] = [
  { id: "S1", what: "CPU, node ÷ native, one worker", value: cpuOf("node", "native"), atMost: 1.15 },
  {
    id: "S1",
    what: "or CPU, node ÷ lua-gcra-log",
    value: cpuOf("node", "lua-gcra-log"),
    atMost: 1.08,
  },
  {
    id: "S1",
    what: "CPU, node ÷ native, two workers",
    value: cpuOf("node-2-workers", "native-2-workers"),
    atMost: 1.2,
  },
  { id: "S2", what: "CPU, node-headers ÷ native", value: cpuOf("node-headers", "native"), atMost: 1.35 },
  { id: "S2", what: "or CPU, node-headers ÷ lua-headers", value: cpuOf("node-headers", "lua-headers"), atMost: 1.08 },
  {
    id: "S3",
    what: "CPU, node-10k-policies ÷ node-hosts-keys",
    value: cpuOf("node-10k-policies", "node-hosts-keys"),
    atMost: 1.1,
  },
  ...["", "-hot"].flatMap((keys): Target[] => {
    const pair = `cluster${keys} ÷ redis-each${keys}`;
    return [
      {
        id: "S4",
        what: `req/s, ${pair}`,
        value: (find) => find(`cluster${keys}`).toRedisEach?.requestsPerSecond,
        atLeast: 1.5,
      },
      { id: "S4", what: `CPU, ${pair}`, value: (find) => find(`cluster${keys}`).toRedisEach?.cpu, atMost: 0.5 },
      { id: "S4", what: `p99, ${pair}`, value: (find) => find(`cluster${keys}`).toRedisEach?.p99, atMost: 1 },
    ];
  }),
  {
    id: "S4",
    what: "p50, one connection, cluster ÷ redis-each",
    value: (find) => find("cluster-alone").toRedisEach?.p50,
    atMost: 1.05,
  },
  { id: "S5", what: "req/s, cluster-leased ÷ node", value: speedOf("cluster-leased", "node"), atLeast: 0.9 },
  {
    id: "S5",
    what: "Redis calls a second, cluster-leased",
    value: (find) => find("cluster-leased").redisCallsPerSecond,
    atMost: 25,
  },
  { id: "S6", what: "req/s, cluster-flood ÷ node-flood", value: speedOf("cluster-flood", "node-flood"), atLeast: 0.95 },
  {
    id: "S6",
    what: "Redis calls a second, cluster-flood",
    value: (find) => find("cluster-flood").redisCallsPerSecond,
    atMost: 0,
  },
];

export function compareWithTargets(figures: readonly Figures[]): TargetResult[] {
  return targets.map(({ id, what, value, atMost, atLeast }) => {
    let measured: number | undefined;
    try {
      measured = value((name) => found(figures, name));
    } catch (error) {
      if (!(error instanceof NotMeasured)) throw error;
    }
    return {
      target: id,
      what,
      value: measured,
      wanted: atMost !== undefined ? `≤ ${atMost}` : `≥ ${atLeast}`,
      met: measured === undefined ? undefined : atMost !== undefined ? measured <= atMost : measured >= (atLeast ?? 0),
    };
  });
}

class NotMeasured extends Error {}

function found(figures: readonly Figures[], name: string): Figures {
  const variant = figures.find((candidate) => candidate.name === name);
  if (variant === undefined) throw new NotMeasured(name);
  return variant;
}
