// Builds the delta for one changed policy by hand, in the layout of limiter/src/protocol/snapshot-lines.ts, so that what a gateway
// needs for it can be measured without a control plane and its database.

export interface Held {
  readonly epoch: string;
  readonly revision: number;
  readonly edition: string;
}

export interface DeltaFrame extends Held {
  /** The content of one text message; far less than a frame may have. */
  readonly bytes: Buffer;
}

const lists = ["apps", "bans", "callers", "policies", "gone"] as const;

/** @param document of the changed policy, which is of the app `default` @param policyCount of all policies afterwards */
export function deltaFrame(from: Held, document: string, policyCount: number): DeltaFrame {
  const to = { epoch: from.epoch, revision: from.revision + 1, edition: `${from.edition}+` };
  const head = JSON.stringify({ type: "delta", ...to, proof: "", format: 1, from, policyCount });
  const entries = { apps: "", bans: "", callers: "", policies: `{"app":"default","document":${document}}\n`, gone: "" };
  const text = lists.map((list) => `,\n"${list}":[\n${entries[list]}]`).join("");
  return { ...to, bytes: Buffer.from(`${head.slice(0, -1)}${text}}\n`) };
}

/** Reads from a snapshot what a gateway holds that has taken it. */
export function heldAfter(snapshot: Buffer): Held {
  const firstLine = snapshot.toString("utf8", 0, snapshot.indexOf("\n") - 1);
  const { epoch, revision, edition = "" } = JSON.parse(`${firstLine}}`);
  return { epoch, revision, edition };
}
