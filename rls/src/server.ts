// The gRPC server: Envoy's rate limit service and the standard health service. It bounds how many calls are under way, and stops without
// losing any of them.

import {
  type handleUnaryCall,
  Server,
  ServerCredentials,
  type ServiceError,
  type StatusObject,
  status,
} from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import { type Decisions, ForeignDomain, Undecided } from "./decisions.ts";
import { InvalidRequest } from "./invalid-request.ts";
import { loadService, type RateLimitRequest, type RateLimitResponse } from "./protocol.ts";
import type { Reports } from "./reports.ts";

export interface ServerOptions {
  readonly host: string;
  readonly port: number;
  readonly decisions: Decisions;
  readonly maxPending: number;
  readonly reports: Reports;
}

/** Envoy's own bound on the headers of a request is 60 KiB, and a few descriptors may repeat a header. */
const mostRequestBytes = 1024 * 1024;
/** Of descriptors, in all calls under way: a call keeps some three times as many. */
const mostPendingBytes = 32 * 1024 * 1024;
/** Each descriptor is a question, which a call keeps until it is answered. */
const bytesOfDescriptor = 1_000;
const bytesOfEntry = 100;
const serviceName = "envoy.service.ratelimit.v3.RateLimitService";

export class RateLimitServer {
  readonly #options: ServerOptions;
  readonly #server = new Server({
    "grpc.max_receive_message_length": mostRequestBytes,
    // Nobody reads gRPC's own statistics of each call.
    "grpc.enable_channelz": 0,
  });
  readonly #health = new HealthImplementation({ "": "SERVING", [serviceName]: "SERVING" });
  #pending = 0;
  #pendingBytes = 0;

  constructor(options: ServerOptions) {
    this.#options = options;
    const shouldRateLimit: handleUnaryCall<RateLimitRequest, RateLimitResponse> = ({ request }, reply) => {
      this.#answer(request).then(
        (answer) => reply(null, answer),
        (error) => reply(this.#statusOf(error)),
      );
    };
    this.#server.addService(loadService(), { shouldRateLimit });
    this.#health.addToServer(this.#server);
  }

  /** @returns the port on which it listens @throws if it cannot listen */
  listen(): Promise<number> {
    const { host, port } = this.#options;
    const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(address, ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      );
    });
  }

  /** Takes no further calls, and ends when those under way are answered, or after this time. */
  async stop(withinMs: number): Promise<void> {
    for (const name of ["", serviceName]) this.#health.setStatus(name, "NOT_SERVING");
    const patience = setTimeout(() => this.#server.forceShutdown(), withinMs);
    await new Promise<void>((resolve) => this.#server.tryShutdown(() => resolve()));
    clearTimeout(patience);
  }

  async #answer(request: RateLimitRequest): Promise<RateLimitResponse> {
    const { maxPending } = this.#options;
    if (this.#pending >= maxPending) {
      throw new TooManyCalls(`expected at most ${maxPending} calls at once (SLUICE_RLS_MAX_PENDING), got one more`);
    }
    const bytes = bytesIn(request);
    if (this.#pendingBytes + bytes > mostPendingBytes) {
      throw new TooManyCalls(
        `expected descriptors of at most ${mostPendingBytes} bytes in all calls at once, got more`,
      );
    }
    this.#pending += 1;
    this.#pendingBytes += bytes;
    try {
      return await this.#options.decisions.decide(request);
    } finally {
      this.#pending -= 1;
      this.#pendingBytes -= bytes;
    }
  }

  #statusOf(error: unknown): Partial<StatusObject> | ServiceError {
    if (error instanceof InvalidRequest) return { code: status.INVALID_ARGUMENT, details: error.message };
    if (error instanceof ForeignDomain) return { code: status.PERMISSION_DENIED, details: error.message };
    if (error instanceof TooManyCalls) return { code: status.RESOURCE_EXHAUSTED, details: error.message };
    if (error instanceof Undecided) {
      return { code: error.isMistake ? status.FAILED_PRECONDITION : status.UNAVAILABLE, details: error.message };
    }
    this.#options.reports.say("internal", `a call failed: ${error instanceof Error ? error.stack : error}`);
    return { code: status.INTERNAL, details: "the rate limit service failed; its log says why" };
  }
}

class TooManyCalls extends Error {}

function bytesIn({ descriptors }: RateLimitRequest): number {
  let bytes = 0;
  for (const { entries } of descriptors) {
    bytes += bytesOfDescriptor;
    for (const { key, value } of entries) bytes += bytesOfEntry + key.length + value.length;
  }
  return bytes;
}
