// Puts the control plane together from its configuration, ready to listen. Reads like a table of contents.

import Fastify, { type FastifyInstance } from "fastify";
import fp from "fastify-plugin";
import type { TotalBounds } from "./bounds/bounds.ts";
import type { Configuration } from "./configuration.ts";
import apiDescription from "./plugins/api-description.ts";
import authentication from "./plugins/authentication.ts";
import databasePlugin from "./plugins/database.ts";
import documentBodies from "./plugins/document-bodies.ts";
import errorResponses, { answerClientError, answerError } from "./plugins/error-responses.ts";
import lastResponses from "./plugins/last-responses.ts";
import { watchMethods } from "./plugins/method-not-allowed.ts";
import metrics from "./plugins/metrics.ts";
import push from "./plugins/push.ts";
import redis from "./plugins/redis.ts";
import retention from "./plugins/retention.ts";
import websockets from "./plugins/websockets.ts";
import { defaultPushTimes, type PushTimes } from "./push/push-session.ts";
import appRoutes from "./routes/apps.ts";
import banRoutes from "./routes/bans.ts";
import counterRoutes from "./routes/counters.ts";
import epochRoutes from "./routes/epoch.ts";
import gatewayRoutes from "./routes/gateways.ts";
import healthRoutes from "./routes/health.ts";
import policyRoutes from "./routes/policies.ts";
import revisionRoutes from "./routes/revisions.ts";
import templateRoutes from "./routes/templates.ts";
import tokenRoutes from "./routes/tokens.ts";
import { parseWait } from "./schemas/parameters.ts";
import { type Database, openDatabase } from "./storage/database.ts";
import { ensureFirstTokens } from "./tokens/first-tokens.ts";

declare module "fastify" {
  interface FastifyInstance {
    /** Milliseconds since 1970. */
    now(): number;
    readonly totalBounds: TotalBounds;
  }
}

/** What tests put in place of the world. */
export interface Surroundings {
  readonly now?: () => number;
  readonly pushTimes?: PushTimes;
  /** Where the log goes; standard error if absent, since standard output is for people. */
  readonly logTo?: { write(line: string): void };
}

export interface ControlPlane {
  readonly app: FastifyInstance;
  /** Made now, because there was none: to be shown once. */
  readonly firstAdminToken: string | undefined;
}

/** What is written to the log by nobody on purpose, and must not get there by accident. */
const secretPaths = ["authorization", "token"].flatMap((name) => [name, `*.${name}`, `*.*.${name}`]);

const maxBodyBytes = 1024 * 1024;

/** @throws when the database cannot be opened or migrated, or a token cannot be used */
export async function buildControlPlane(
  configuration: Configuration,
  surroundings: Surroundings = {},
): Promise<ControlPlane> {
  const now = surroundings.now ?? Date.now;
  const database = await openDatabase(configuration.database);
  try {
    const app = await buildApp(configuration, surroundings, database, now);
    // Last: a token made before something else failed would never be shown.
    return { app, firstAdminToken: await ensureFirstTokens(database, configuration, now()) };
  } catch (error) {
    await database.destroy();
    throw error;
  }
}

async function buildApp(
  configuration: Configuration,
  surroundings: Surroundings,
  database: Database,
  now: () => number,
): Promise<FastifyInstance> {
  const app = Fastify({
    bodyLimit: maxBodyBytes,
    // A name that is too long is no name, and gets the error of its route.
    routerOptions: { maxParamLength: 1024 },
    // Requests that arrive while we stop are served: nothing is torn down before the last one.
    return503OnClosing: false,
    frameworkErrors: (error, request, reply) => void answerError(error, request, reply),
    clientErrorHandler: answerClientError,
    ajv: {
      customOptions: {
        // A misspelt parameter is reported, not dropped; everything wrong at once, with what it was.
        removeAdditional: false,
        coerceTypes: true,
        allErrors: true,
        verbose: true,
        keywords: ["x-expected"],
        formats: { wait: (text: string) => parseWait(text) !== undefined },
      },
    },
    logger: {
      level: configuration.logLevel,
      stream: surroundings.logTo ?? process.stderr,
      redact: { paths: secretPaths, censor: "[redacted]" },
    },
  });
  // Answers go out as they are: a serialiser made from the response schemas would drop what they fail to mention.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.decorate("now", now);
  app.decorate("totalBounds", configuration.totalBounds);

  const methods = watchMethods();
  await app.register(errorResponses);
  await app.register(lastResponses);
  await app.register(websockets);
  await app.register(databasePlugin, { database });
  await app.register(authentication, { now });
  await app.register(documentBodies);
  await app.register(apiDescription);
  await app.register(methods.watch);
  await app.register(metrics);
  await app.register(push, { now, times: surroundings.pushTimes ?? defaultPushTimes });
  await app.register(retention, { now, retention: configuration.retention });
  await app.register(redis, { now, deployment: configuration.redis });
  await app.register(healthRoutes);
  await app.register(api, { redisIsSet: configuration.redis !== undefined });
  await app.register(methods.refuse);
  await app.ready();
  return app;
}

const api = fp<{ redisIsSet: boolean }>(
  async (app, { redisIsSet }) => {
    const prefix = "/api/v1";
    await app.register(appRoutes, { prefix });
    await app.register(policyRoutes, { prefix, redisIsSet });
    await app.register(templateRoutes, { prefix });
    await app.register(banRoutes, { prefix });
    await app.register(tokenRoutes, { prefix });
    await app.register(revisionRoutes, { prefix });
    await app.register(epochRoutes, { prefix });
    await app.register(gatewayRoutes, { prefix });
    await app.register(counterRoutes, { prefix });
  },
  { name: "api", dependencies: ["database", "authentication", "document-bodies", "push", "redis", "api-description"] },
);
