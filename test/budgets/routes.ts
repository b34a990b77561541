// Measures what one request of each route costs a control plane that has much stored: processor time of its process, and bytes of the answer.

import { connect } from "node:net";
import { cpuUs } from "../../bench/cpu-time.ts";
import { changes, gets, type Kind, signIns, written } from "./requests.ts";
import type { World } from "./world.ts";

export interface RouteCost {
  readonly asked: string;
  readonly status: number;
  /** Of the processor, for each request. */
  readonly ms: number;
  readonly bytes: number;
}

/** Each is asked so long, or so often. */
const measuredMs = 600;
const mostRequests = 2_000;

/** Measures every request as a client who may send it. */
export async function routeCosts(world: World): Promise<RouteCost[]> {
  const costs: RouteCost[] = [];
  for (const asked of [...(await gets(world)), ...signIns, ...changes]) {
    const isPublic = !asked.path.startsWith("/api/") || asked.path.startsWith("/api/v1/session");
    const token = isPublic ? undefined : world.tokens[asked.method === "GET" ? "viewer" : "editor"];
    const request = written(asked, token);
    const { port } = new URL(world.plane.url);
    const { pid } = world.plane;
    let answer = await ask(Number(port), request);
    const beganUs = cpuUs([pid]);
    const endAt = performance.now() + measuredMs;
    let requests = 0;
    while (performance.now() < endAt && requests < mostRequests) {
      answer = await ask(Number(port), request);
      requests += 1;
    }
    const ms = (cpuUs([pid]) - beganUs) / requests / 1_000;
    costs.push({ asked: `${asked.method} ${asked.path}`, ms, ...answer });
  }
  return costs.sort((a, b) => b.ms - a.ms);
}

/** What each kind of client sends. */
export async function requestsOf(world: World): Promise<Record<Kind, Buffer[]>> {
  const all = await gets(world);
  const { viewer, editor, caller } = world.tokens;
  const reads = (token: string | undefined) => [...all, ...signIns].map((asked) => written(asked, token));
  return {
    stranger: [...reads(undefined), ...reads("a-token-that-nobody-has-0123456789")],
    caller: reads(caller),
    viewer: reads(viewer),
    editor: [...changes.map((asked) => written(asked, editor)), ...reads(editor)],
  };
}

/** Sends one request on a connection of its own, and reads all of the answer. */
function ask(port: number, request: Buffer): Promise<{ status: number; bytes: number }> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    const parts: Buffer[] = [];
    let bytes = 0;
    let wanted = Number.POSITIVE_INFINITY;
    socket.on("data", (data) => {
      if (wanted === Number.POSITIVE_INFINITY) {
        parts.push(data);
        const head = Buffer.concat(parts);
        const end = head.indexOf("\r\n\r\n");
        if (end >= 0) wanted = end + 4 + Number(/^content-length: (\d+)$/im.exec(head.toString("latin1", 0, end))?.[1]);
      }
      bytes += data.length;
      if (bytes >= wanted) socket.end();
    });
    socket.on("error", reject);
    socket.on("close", () => resolve({ status: Number(parts[0]?.toString("latin1", 9, 12)), bytes }));
    socket.write(request);
  });
}
