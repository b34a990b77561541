// Sends requests to a control plane from a thread of its own, so that what the control plane computes is not mixed with it.
import { parentPort, workerData } from "node:worker_threads";

export interface Sending {
  readonly path: string;
  readonly type: string;
  readonly body: string;
}

export interface Sent {
  readonly ms: number;
  readonly status: number;
  readonly answer: string;
  /** The longest time that a small request took meanwhile. */
  readonly othersMostMs: number;
}

const { url, token } = workerData as { url: string; token: string };
const headers = { authorization: `Bearer ${token}` };
const betweenOthersMs = 5;

parentPort?.on("message", async ({ path, type, body }: Sending) => {
  const bytes = Buffer.from(body);
  const beganAt = performance.now();
  let isDone = false;
  const sent = fetch(`${url}${path}`, { method: "PUT", headers: { ...headers, "content-type": type }, body: bytes });
  const others = askMeanwhile(() => isDone);
  const response = await sent;
  const answer = await response.text();
  const ms = performance.now() - beganAt;
  isDone = true;
  const result: Sent = { ms, status: response.status, answer, othersMostMs: await others };
  parentPort?.postMessage(result);
});

async function askMeanwhile(isDone: () => boolean): Promise<number> {
  let mostMs = 0;
  while (!isDone()) {
    const beganAt = performance.now();
    await (await fetch(`${url}/api/v1/apps/default`, { headers })).text();
    mostMs = Math.max(mostMs, performance.now() - beganAt);
    await new Promise((resolve) => setTimeout(resolve, betweenOthersMs));
  }
  return mostMs;
}
