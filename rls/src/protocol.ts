// Envoy's messages as this service sees them, and the service's definition for gRPC. A field that was not sent has its default: "", 0, an
// empty list, or null for a message.

import { join } from "node:path";
import type { ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

export interface RateLimitRequest {
  readonly domain: string;
  readonly descriptors: readonly Descriptor[];
  readonly hitsAddend: number;
}

export interface Descriptor {
  readonly entries: readonly Entry[];
  readonly limit: object | null;
  readonly hitsAddend: { readonly value: number } | null;
  readonly isNegativeHits: boolean;
}

export interface Entry {
  readonly key: string;
  readonly value: string;
}

export interface RateLimitResponse {
  readonly overallCode: Code;
  readonly statuses: readonly DescriptorStatus[];
  readonly responseHeadersToAdd: readonly Header[];
}

/** UNKNOWN: nobody decided about this descriptor. */
export type Code = "OK" | "OVER_LIMIT" | "UNKNOWN";

export interface DescriptorStatus {
  readonly code: Code;
  readonly currentLimit?: { readonly requestsPerUnit: number; readonly name: string };
  readonly limitRemaining?: number;
  readonly durationUntilReset?: { readonly seconds: number };
}

export interface Header {
  readonly key: string;
  readonly value: string;
}

const file = join(import.meta.dirname, "../proto/rate-limit-service.proto");

/** @returns the definition of Envoy's service, with what encodes and decodes its messages */
export function loadService(): ServiceDefinition {
  // Values of 64 bits become numbers: those that a number cannot hold exactly are larger than any cost.
  const loaded = loadSync(file, { longs: Number, enums: String, defaults: true });
  return loaded["envoy.service.ratelimit.v3.RateLimitService"] as ServiceDefinition;
}
