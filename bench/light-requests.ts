// Sends a light stream of requests at a fixed rate, however long the answers take.
import { Agent, request } from "node:http";

export interface Stream {
  /** Returns the latencies since the last call, in ms, ascending. */
  take(): number[];
  stop(): void;
}

/** @param targets requested in turn, each path with its host */
export function startRequests(
  url: string,
  targets: readonly { host: string; path: string }[],
  everyMs: number,
): Stream {
  const agent = new Agent({ keepAlive: true });
  let latencies: number[] = [];
  let sent = 0;
  const timer = setInterval(() => {
    const { host, path } = targets[sent % targets.length] as { host: string; path: string };
    sent += 1;
    const beganAt = performance.now();
    request(`${url}${path}`, { agent, headers: { host } }, (response) => {
      response.resume().on("end", () => latencies.push(performance.now() - beganAt));
    })
      .on("error", () => latencies.push(Number.POSITIVE_INFINITY))
      .end();
  }, everyMs);
  return {
    take() {
      const taken = latencies.sort((a, b) => a - b);
      latencies = [];
      return taken;
    },
    stop() {
      clearInterval(timer);
      agent.destroy();
    },
  };
}
