// Parses and checks messages of gateways: a gateway has a credential, but may have another version or be broken. A message
// that is not understood is refused as a whole, so that no operator sees a half-read report as fact.

import { cutToBytes } from "@sluice/limiter/basics/byte-length.ts";
import type { Problem } from "@sluice/limiter/document/problems.ts";
import type { CounterReading, GatewayMessage, RedisReport } from "@sluice/limiter/protocol/push-messages.ts";

export const maxMessageBytes = 1024 * 1024;
const maxTextLength = 128;
/**
 * As many as a gateway sends, including the one that counts the rest. They are kept as long as the gateway is remembered.
 */
const keptProblems = 21;
const maxProblemBytes = 500;
/** Many more than the number of possible decision results. */
const maxCounters = 32;
/** More than a policy may have limits. */
const maxReadings = 100;

type Json = Record<string, unknown>;

/** @returns the message with only its known fields, or undefined when the text is not a valid message */
export function readGatewayMessage(text: string): GatewayMessage | undefined {
  const message = parse(text);
  switch (message?.["type"]) {
    case "hello": {
      const { gateway, version, workers, epoch, revision, proof } = message;
      if (!isText(gateway) || gateway === "" || !isText(version) || !isCount(workers)) return undefined;
      if (!isText(epoch) || !isCount(revision) || !(proof === undefined || isText(proof))) return undefined;
      return { type: "hello", gateway, version, workers, epoch, revision, ...(proof === undefined ? {} : { proof }) };
    }
    case "applied": {
      const { epoch, revision } = message;
      if (!isText(epoch) || !isCount(revision)) return undefined;
      return { type: "applied", epoch, revision };
    }
    case "refused": {
      const { epoch, revision } = message;
      const problems = readProblems(message["problems"]);
      if (!isText(epoch) || !isCount(revision) || problems === undefined) return undefined;
      return { type: "refused", epoch, revision, problems };
    }
    case "status": {
      const counters = readCounters(message["counters"]);
      const redis = readRedisReport(message["redis"]);
      if (counters === undefined || redis === "malformed") return undefined;
      return { type: "status", counters, ...(redis === undefined ? {} : { redis }) };
    }
    case "counter": {
      const { id, limits } = message;
      const readings = limits === undefined ? undefined : readReadings(limits);
      if (!isCount(id) || readings === "malformed") return undefined;
      return { type: "counter", id, ...(readings === undefined ? {} : { limits: readings }) };
    }
    default:
      return undefined;
  }
}

function parse(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Keeps the first problems. If a long refusal closed the socket instead, the gateway would repeat it after each reconnect,
 * and its refusal would never be recorded.
 */
function readProblems(value: unknown): Problem[] | undefined {
  const list = listOf(value);
  if (list === undefined) return undefined;
  const problems: Problem[] = [];
  for (const item of list.slice(0, keptProblems)) {
    if (!isRecord(item)) return undefined;
    const { path, expected, got } = item;
    if (typeof path !== "string" || typeof expected !== "string" || typeof got !== "string") return undefined;
    problems.push({ path: shortened(path), expected: shortened(expected), got: shortened(got) });
  }
  return problems;
}

function shortened(text: string): string {
  const start = cutToBytes(text, maxProblemBytes);
  return start.length < text.length ? `${start}…` : text;
}

function readCounters(value: unknown): Record<string, number> | undefined {
  const list = listOf(value);
  if (list !== undefined && list.length === 0) return {};
  if (!isRecord(value)) return undefined;
  const entries = Object.entries(value);
  if (entries.length > maxCounters) return undefined;
  for (const [name, count] of entries) {
    if (!isText(name) || typeof count !== "number") return undefined;
  }
  return value as Record<string, number>;
}

function readRedisReport(value: unknown): RedisReport | undefined | "malformed" {
  if (value === undefined) return undefined;
  if (!isRecord(value)) return "malformed";
  const { state, sinceSeconds } = value;
  if ((state !== "ok" && state !== "failing" && state !== "unused") || !isCount(sinceSeconds)) return "malformed";
  return { state, sinceSeconds };
}

function readReadings(value: unknown): CounterReading[] | "malformed" {
  const list = listOf(value);
  if (list === undefined || list.length > maxReadings) return "malformed";
  const readings: CounterReading[] = [];
  for (const item of list) {
    if (!isRecord(item)) return "malformed";
    const { name, capacity, remaining, resetAfterUs } = item;
    if (!isText(name) || !isCount(capacity) || !isCount(remaining) || !isCount(resetAfterUs)) return "malformed";
    readings.push({ name, capacity, remaining, resetAfterUs });
  }
  return readings;
}

/** Lua has the same empty table for [] and {}, and cjson writes it as {}: here both stand for an empty list. */
function listOf(value: unknown): unknown[] | undefined {
  if (Array.isArray(value)) return value;
  return isRecord(value) && Object.keys(value).length === 0 ? [] : undefined;
}

/** Returns whether the value is a short text without control characters, because it goes into logs, pages and metrics. */
function isText(value: unknown): value is string {
  if (typeof value !== "string" || value.length > maxTextLength) return false;
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    if (code < 32 || code === 127) return false;
  }
  return true;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
