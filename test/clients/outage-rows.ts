// What a caller sees while Redis, the gateway or the network is away, slow, or answers rubbish: the same for all clients. outages.test.ts makes each
// of these outages, and docs/clients.md has the table that is written here.

/** Who decides meanwhile: the client by `onFailure`, or the gateway by the policy's `onStoreFailure`. */
export type Decider = "client" | "gateway";

export interface Row {
  readonly away: string;
  readonly decides: Decider;
  /** When: much earlier than the deadline, or at it. */
  readonly after: "at once" | "the deadline";
}

export const rows = {
  redisKilled: { away: "Redis is killed", decides: "gateway", after: "at once" },
  redisSlow: { away: "Redis is slower than the gateway's deadline for it", decides: "gateway", after: "at once" },
  redisRubbish: { away: "Redis answers rubbish", decides: "gateway", after: "at once" },
  gatewayKilled: { away: "The gateway is killed", decides: "client", after: "at once" },
  gatewayStopped: {
    away: "The gateway accepts connections and says nothing",
    decides: "client",
    after: "the deadline",
  },
  gatewayRubbish: { away: "Something answers rubbish in the gateway's place", decides: "client", after: "at once" },
  gatewayCloses: {
    away: "Something closes every connection in the gateway's place",
    decides: "client",
    after: "at once",
  },
  networkRefuses: { away: "The network refuses connections", decides: "client", after: "at once" },
  networkHangsUp: { away: "The network breaks connections under the answer", decides: "client", after: "at once" },
  networkSlow: { away: "The network is slower than the deadline", decides: "client", after: "the deadline" },
} as const satisfies Record<string, Row>;

const by: Readonly<Record<Decider, { allow: string; deny: string; alone: string; afterwards: string }>> = {
  client: {
    allow: "allowed; `source` and `reason` are `failure`",
    deny: "refused; `source` and `reason` are `failure`",
    alone: "like `check`; an allowed hold has no slots",
    afterwards: "the gateway decides, at the latest after the pause",
  },
  gateway: {
    allow: "as `onStoreFailure` of the policy says; `source` is `gateway`",
    deny: "the same: the gateway has decided",
    alone: "like `check`",
    afterwards: "Redis decides, as soon as the gateway has found it again",
  },
};

/** A reload takes nothing away, so it is not like the others. */
const reload =
  "| nginx reloads | the gateway decides. If nginx closes a kept connection while a request comes, the checks of this request are decided by `onFailure`, and no others | the same | at once | like `check`; who waits in line, waits on | the gateway decides |";

/** @returns the table of docs/clients.md */
export function outageTable(): string {
  const head = [
    "| Meanwhile | `check` with `onFailure: allow` | `check` with `onFailure: deny` | Decided | `report`, `acquire`, `hold` | Afterwards |",
    "| --- | --- | --- | --- | --- | --- |",
  ];
  const lines = Object.values<Row>(rows).map(({ away, decides, after }) => {
    const { allow, deny, alone, afterwards } = by[decides];
    const isLate = after === "the deadline";
    const decided = isLate ? "at the deadline" : "at once";
    const late = isLate ? ". With a `maxWait`, that much later" : "";
    return `| ${away} | ${allow} | ${deny} | ${decided} | ${alone}${late} | ${afterwards} |`;
  });
  return [...head, ...lines, reload].join("\n");
}
