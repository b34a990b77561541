// Sends requests to a control plane from a thread of its own, which makes the bodies too: so neither is in the control plane's memory or
// in its time.
import { parentPort, workerData } from "node:worker_threads";
import { roundsOf } from "./rounds.ts";

export interface Sending {
  /** One of those in rounds.ts. */
  readonly request: string;
}

export interface Sent {
  readonly ms: number;
  readonly bytes: number;
  readonly answer: string;
  /** The longest time that a small request took meanwhile. */
  readonly othersMostMs: number;
}

const { url: origin, token, policies } = workerData as { url: string; token: string; policies: number };
const headers = { authorization: `Bearer ${token}` };
const betweenOthersMs = 5;

parentPort?.on("message", async ({ request }: Sending) => {
  const round = roundsOf(policies).find((one) => one.request === request);
  if (round === undefined) throw new Error(`expected a request of rounds.ts, got ${request}`);
  const { query, type } = round;
  const bytes = Buffer.from(round.body());
  const url = `${origin}/api/v1/apps/default/policies${query}`;
  const beganAt = performance.now();
  let isDone = false;
  const sent = fetch(url, { method: "PUT", headers: { ...headers, "content-type": type }, body: bytes });
  const others = askMeanwhile(() => isDone);
  const response = await sent;
  const answer = await response.text();
  const ms = performance.now() - beganAt;
  isDone = true;
  const result: Sent = { ms, bytes: bytes.length, answer, othersMostMs: await others };
  parentPort?.postMessage(result);
});

async function askMeanwhile(isDone: () => boolean): Promise<number> {
  let mostMs = 0;
  while (!isDone()) {
    const beganAt = performance.now();
    await (await fetch(`${origin}/api/v1/apps/default`, { headers })).text();
    mostMs = Math.max(mostMs, performance.now() - beganAt);
    await new Promise((resolve) => setTimeout(resolve, betweenOthersMs));
  }
  return mostMs;
}
