// Before the measurements, this checks that each variant answers as it should and uses the part that it is named after.
import { readFileSync } from "node:fs";
import { get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { NginxInstance } from "./nginx.ts";
import type { Redis } from "./redis.ts";
import { instances, type Variant } from "./variants.ts";

const requests = 3;
/** The reply to the first is NOSCRIPT, and it is repeated with the script. */
const mostCalls = requests + 1;
/** Each worker counts decisions and writes the counts to shared memory every half second. */
const patienceMs = 3000;

/** @returns what is wrong, or undefined if the variant may be measured */
export async function checkVariant(variant: Variant, nginx: NginxInstance, redis: Redis): Promise<string | undefined> {
  const decisionsBefore = sum(await nginx.decisions());
  const locksBefore = await lockSnippetCount(nginx);
  const callsBefore = await redis.scriptCalls();

  const expectedStatus = variant.flood ? 429 : 200;
  const expectsHeaders = headersOf(variant);
  let last = { status: 0, type: "", limited: false };
  for (let i = 0; i < requests; i++) last = await ask(variant, nginx);
  if (last.status !== expectedStatus) return `expected status ${expectedStatus}, got ${last.status}${errors(nginx)}`;
  if (!variant.flood && last.type !== "image/gif") return `expected the tiny image, got ${last.type}`;
  if (last.limited !== expectsHeaders && !variant.flood) {
    return `expected ${expectsHeaders ? "" : "no "}RateLimit headers, got ${last.limited ? "some" : "none"}${errors(nginx)}`;
  }

  const calls = (await redis.scriptCalls()) - callsBefore;
  if (variant.asksRedis ? calls < 1 || calls > mostCalls : calls !== 0) {
    return `expected ${variant.asksRedis ? `1…${mostCalls}` : "no"} calls of Redis, got ${calls}${errors(nginx)}`;
  }
  if (variant.path === "/lock-snippet" && (await lockSnippetCount(nginx)) - locksBefore !== requests) {
    return `expected ${requests} requests more to be counted under the lock`;
  }
  if (variant.path !== "/sluice") return undefined;
  return decided(nginx, decisionsBefore + requests * (variant.policies ?? 1));
}

function headersOf({ path, instance }: Variant): boolean {
  return path === "/sluice" ? instances[instance].headers === "both" : path.startsWith("/lua-headers");
}

async function decided(nginx: NginxInstance, expected: number): Promise<string | undefined> {
  const giveUpAt = Date.now() + patienceMs;
  for (;;) {
    const decisions = await nginx.decisions();
    if (sum(decisions) === expected && (decisions["degraded"] ?? 0) === 0) return undefined;
    if (Date.now() > giveUpAt)
      return `expected ${expected} decisions, got ${JSON.stringify(decisions)}${errors(nginx)}`;
    await sleep(50);
  }
}

/** This does not use fetch, which cannot send a Host header of its own. */
function ask(variant: Variant, { url }: NginxInstance): Promise<{ status: number; type: string; limited: boolean }> {
  const [target, host] =
    variant.keys === "hosts"
      ? [`${variant.path}/7?k=hot`, "h500.example"]
      : [`${variant.path}?k=check`, "bench.example"];
  return new Promise((resolve, reject) => {
    get(`${url}${target}`, { headers: { host }, agent: false }, (answer) => {
      answer.resume();
      const { "content-type": type = "", ratelimit } = answer.headers;
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, type, limited: ratelimit !== undefined }));
    }).on("error", reject);
  });
}

async function lockSnippetCount({ url }: NginxInstance): Promise<number> {
  return Number(await (await fetch(`${url}/lock-snippet-count`)).text());
}

function sum(decisions: Record<string, number>): number {
  return Object.values(decisions).reduce((total, count) => total + count, 0);
}

/** Returns the last line of nginx's error log that is not about the control plane, which is missing on purpose. */
function errors({ errorLog }: NginxInstance): string {
  const lines = readFileSync(errorLog, "utf8")
    .split("\n")
    .filter((line) => /\[(warn|error|crit|alert|emerg)\]/.test(line) && !line.includes("sluice: push:"));
  return lines.length === 0 ? "" : `; nginx says: ${lines.at(-1)?.replace(/^.*?\[lua\] /, "")}`;
}
