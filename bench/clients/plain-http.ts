// A driver (clients/README.md) without a client, for comparison: it sends each check as a request of its own over kept connections, as a
// service without a client would. It knows only the two orders that the bench sends: `client` and `load`.

import { Agent, request } from "node:http";
import { createInterface } from "node:readline";

interface Call {
  readonly policy: string;
  readonly key: readonly string[];
}

interface Load {
  readonly callers: number;
  readonly seconds: number;
  readonly call: Call;
  readonly keys?: number;
}

const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
let client = { url: "", token: "" };

for await (const line of createInterface({ input: process.stdin })) {
  const said = JSON.parse(line);
  if (said.client !== undefined) client = said.client;
  const answer = said.load === undefined ? { ok: true } : await load(said.load);
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

async function load({ callers, seconds, call, keys = 1 }: Load): Promise<object> {
  const tookMs: number[] = [];
  const counts = { allowed: 0, refused: 0, failures: 0 };
  const beganMs = performance.now();
  const endMs = beganMs + seconds * 1000;
  let number = 0;
  const ask = async () => {
    while (performance.now() < endMs) {
      const [last = "", ...before] = [...call.key].reverse();
      const key = keys > 1 ? [...before.reverse(), `${last}-${number++ % keys}`] : call.key;
      const sentMs = performance.now();
      counts[await check({ ...call, key })] += 1;
      tookMs.push(performance.now() - sentMs);
    }
  };
  await Promise.all(Array.from({ length: callers }, ask));
  tookMs.sort((a, b) => a - b);
  const at = (share: number) => tookMs[Math.min(tookMs.length - 1, Math.floor(share * tookMs.length))] ?? 0;
  const took = (performance.now() - beganMs) / 1000;
  return { calls: tookMs.length, ...counts, errors: 0, seconds: took, p50Ms: at(0.5), p99Ms: at(0.99) };
}

function check({ policy, key }: Call): Promise<"allowed" | "refused" | "failures"> {
  const headers = { authorization: `Bearer ${client.token}`, "content-type": "application/json" };
  return new Promise((resolve) => {
    const sent = request(`${client.url}/sluice/v1/check`, { method: "POST", headers, agent }, (incoming) => {
      let body = "";
      incoming.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      incoming.on("end", () => {
        if (incoming.statusCode !== 200) return resolve("failures");
        resolve(JSON.parse(body).allowed === true ? "allowed" : "refused");
      });
    });
    sent.on("error", () => resolve("failures"));
    sent.end(JSON.stringify({ checks: [{ policy, key }] }));
  });
}
