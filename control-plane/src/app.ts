// Puts the control plane together from its configuration, ready to listen. Reads like a table of contents.

import Fastify, { type FastifyInstance } from "fastify";
import fp from "fastify-plugin";
import { maxBodyBytes } from "./bodies/bounds.ts";
import { defaultYamlDeadlineMs } from "./bodies/yaml-thread.ts";
import type { TotalBounds } from "./bounds/bounds.ts";
import type { Configuration } from "./configuration.ts";
import { defaultHttpTimes, type HttpTimes, serverOptions } from "./http-server.ts";
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
import unreadBodies from "./plugins/unread-bodies.ts";
import websockets from "./plugins/websockets.ts";
import wellFormedQueries from "./plugins/well-formed-queries.ts";
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
import { listLegacyApps } from "./storage/apps.ts";
import { type Database, openDatabase } from "./storage/database.ts";
import { DatabaseBusy, DatabaseUnwritable } from "./storage/sqlite-errors.ts";
import type { StorageHealth } from "./storage/storage-health.ts";
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
  readonly httpTimes?: HttpTimes;
  /** How long one YAML body may take to read. */
  readonly yamlDeadlineMs?: number;
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

const tokenRetryMs = 1_000;

/** @throws when the database cannot be opened or migrated, or a token cannot be used */
export async function buildControlPlane(
  configuration: Configuration,
  surroundings: Surroundings = {},
): Promise<ControlPlane> {
  const now = surroundings.now ?? Date.now;
  const { database, health } = await openDatabase(configuration.database);
  try {
    const app = await buildApp(configuration, surroundings, database, health, now);
    // Last: a token made before something else failed would never be shown.
    return { app, firstAdminToken: await tokensOrLater(app, () => ensureFirstTokens(database, configuration, now())) };
  } catch (error) {
    await database.destroy();
    throw error;
  }
}

/**
 * On a full disk, what is stored is served by the tokens that are stored; those of the environment come when there is
 * room. @returns the token to show, where one was made now
 */
async function tokensOrLater(
  app: FastifyInstance,
  ensure: () => Promise<string | undefined>,
): Promise<string | undefined> {
  try {
    return await ensure();
  } catch (error) {
    if (!isPassing(error)) throw error;
    app.log.error({ err: error }, "the tokens of the environment cannot be stored yet: those stored before hold on");
  }
  const again = setInterval(() => {
    if (app.storageHealth.state !== "ok") return;
    ensure().then(
      (made) => {
        clearInterval(again);
        if (made !== undefined) console.log(`sluice: admin token (shown once): ${made}`);
        app.log.warn("the tokens of the environment are stored now");
      },
      (error) => {
        // Closed meanwhile.
        if (!isPassing(error)) clearInterval(again);
      },
    );
  }, tokenRetryMs).unref();
  return undefined;
}

function isPassing(error: unknown): boolean {
  return error instanceof DatabaseUnwritable || error instanceof DatabaseBusy;
}

async function buildApp(
  configuration: Configuration,
  surroundings: Surroundings,
  database: Database,
  health: StorageHealth,
  now: () => number,
): Promise<FastifyInstance> {
  const app = Fastify({
    ...serverOptions(surroundings.httpTimes ?? defaultHttpTimes),
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
        // "1e999" is read as infinity; strictNumbers would take that for no number and check no bounds.
        strictNumbers: false,
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
  await app.register(unreadBodies);
  await app.register(wellFormedQueries);
  await app.register(websockets);
  await app.register(databasePlugin, { database, health });
  await app.register(authentication, { now });
  await app.register(documentBodies, { yamlDeadlineMs: surroundings.yamlDeadlineMs ?? defaultYamlDeadlineMs });
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
  await warnOfLegacyApps(app);
  return app;
}

/** Each start, until an admin has set their realms: their editors may match, and answer, everybody's requests. */
async function warnOfLegacyApps(app: FastifyInstance): Promise<void> {
  const apps = await listLegacyApps(app.database);
  if (apps.length === 0) return;
  app.log.warn(
    { apps },
    "these apps are from before there were realms, and their policies match all traffic: set a realm by PUT /api/v1/apps/{app}",
  );
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
