// Assembles the control plane from its configuration, ready to listen: the list of all plugins and routes.

import Fastify, { type FastifyInstance } from "fastify";
import fp from "fastify-plugin";
import { maxBodyBytes } from "./bodies/bounds.ts";
import { defaultYamlDeadlineMs } from "./bodies/yaml-thread.ts";
import type { TotalBounds } from "./bounds/bounds.ts";
import type { Configuration, LogLevel, OpenIdConfiguration } from "./configuration.ts";
import { createBoundedServer, defaultHttpTimes, type HttpTimes } from "./http/server.ts";
import { logOptions } from "./log/log-options.ts";
import activity from "./plugins/activity.ts";
import apiDescription from "./plugins/api-description.ts";
import authentication from "./plugins/authentication.ts";
import clientAddress from "./plugins/client-address.ts";
import consolePages from "./plugins/console.ts";
import databasePlugin from "./plugins/database.ts";
import documentBodies from "./plugins/document-bodies.ts";
import errorResponses, { answerClientError, answerRefusedByRouter } from "./plugins/error-responses.ts";
import fairTurns from "./plugins/fair-turns.ts";
import groups from "./plugins/groups.ts";
import keptKeys from "./plugins/kept-keys.ts";
import lastResponses from "./plugins/last-responses.ts";
import longReads from "./plugins/long-reads.ts";
import { watchMethods } from "./plugins/method-not-allowed.ts";
import metrics from "./plugins/metrics.ts";
import minuteLog from "./plugins/minute-log.ts";
import push, { pushUrl } from "./plugins/push.ts";
import readiness from "./plugins/readiness.ts";
import redis from "./plugins/redis.ts";
import requestLimits from "./plugins/request-limits.ts";
import requestLog, { requestLogOptions } from "./plugins/request-log.ts";
import retention from "./plugins/retention.ts";
import routeTable from "./plugins/route-table.ts";
import securityHeaders from "./plugins/security-headers.ts";
import sessions from "./plugins/sessions.ts";
import storageMetrics from "./plugins/storage-metrics.ts";
import tokenUses from "./plugins/token-uses.ts";
import tracing from "./plugins/tracing.ts";
import unreadBodies from "./plugins/unread-bodies.ts";
import websockets from "./plugins/websockets.ts";
import wellFormedUrls, { readNoQuery, shortUrl } from "./plugins/well-formed-urls.ts";
import { defaultPushTimes, type PushTimes } from "./push/push-session.ts";
import activityRoutes from "./routes/activity.ts";
import appRoutes from "./routes/apps.ts";
import auditRoutes from "./routes/audit.ts";
import banRoutes from "./routes/bans.ts";
import consumerRoutes from "./routes/consumers.ts";
import counterRoutes from "./routes/counters.ts";
import epochRoutes from "./routes/epoch.ts";
import eventRoutes from "./routes/events.ts";
import gatewayRoutes from "./routes/gateways.ts";
import healthRoutes from "./routes/health.ts";
import libraryRoutes from "./routes/library.ts";
import memberRoutes from "./routes/members.ts";
import networkListRoutes from "./routes/network-lists.ts";
import openIdRoutes from "./routes/openid.ts";
import policyRoutes from "./routes/policies.ts";
import putPoliciesRoutes from "./routes/put-policies.ts";
import revisionRoutes from "./routes/revisions.ts";
import sessionRoutes from "./routes/session.ts";
import templateRoutes from "./routes/templates.ts";
import tokenRoutes from "./routes/tokens.ts";
import { parseWait } from "./schemas/parameters.ts";
import { compileOnce } from "./schemas/validators.ts";
import { listLegacyApps } from "./storage/apps.ts";
import { recentCallers } from "./storage/callers.ts";
import { openDatabase } from "./storage/database.ts";
import { DatabaseBusy, DatabaseUnreachable, DatabaseUnwritable } from "./storage/engines/database-errors.ts";
import type { PostgresChannel } from "./storage/engines/postgres-channel.ts";
import type { ServerTimes } from "./storage/engines/server-dialect.ts";
import type { StorageHealth } from "./storage/engines/storage-health.ts";
import type { StorageObserver } from "./storage/engines/storage-observer.ts";
import type { Database } from "./storage/tables.ts";
import { ensureFirstTokens } from "./tokens/first-tokens.ts";

declare module "fastify" {
  interface FastifyInstance {
    /** Returns milliseconds since 1970. */
    now(): number;
    readonly totalBounds: TotalBounds;
  }
}

/** Tests use these to replace the clock, the time limits and the log. */
export interface Surroundings {
  readonly now?: () => number;
  /** Returns milliseconds of a clock that never steps back, for limits of requests and lines of the log. */
  readonly uptimeMs?: () => number;
  readonly pushTimes?: PushTimes;
  readonly httpTimes?: HttpTimes;
  /** The longest time that reading one YAML body may take. */
  readonly yamlDeadlineMs?: number;
  /** Where the console was built to. Absent: only the API is served. */
  readonly consoleDirectory?: string;
  /** When to give up on a database server. */
  readonly databaseTimes?: ServerTimes;
  /** Receives the log. Default: standard error, because standard output is for people. */
  readonly logTo?: { write(line: string): void };
}

export interface ControlPlane {
  readonly app: FastifyInstance;
  /** The token that this start created because no admin token existed. It is to be shown once. */
  readonly firstAdminToken: string | undefined;
}

const tokenRetryMs = 1_000;
const mostRemembered = 10_000;

/** @throws when the database cannot be opened or migrated, or a token cannot be used */
export async function buildControlPlane(
  configuration: Configuration,
  surroundings: Surroundings = {},
): Promise<ControlPlane> {
  const now = surroundings.now ?? Date.now;
  const onWait = (error: unknown) => {
    console.error(`sluice: waiting for the database: ${error instanceof Error ? error.message : String(error)}`);
  };
  const { database, health, observer } = await openDatabase(configuration.database, onWait, surroundings.databaseTimes);
  try {
    const app = await buildApp(configuration, surroundings, { database, health, observer }, now);
    // This comes last: a token that is made before another step fails would never be shown.
    const firstAdminToken = await tokensOrLater(app, () =>
      ensureFirstTokens(database, configuration, now(), (message) => app.log.warn(message)),
    );
    await rememberTokens(app);
    return { app, firstAdminToken };
  } catch (error) {
    await database.destroy();
    throw error;
  }
}

/**
 * On a full disk, the control plane starts with the tokens that are stored already. It stores those of the environment as
 * soon as there is room.
 * @returns the token to show, if one was made now
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
        // The app was closed meanwhile.
        if (!isPassing(error)) clearInterval(again);
      },
    );
  }, tokenRetryMs).unref();
  return undefined;
}

/** Those who have used this control plane before a restart are not taken for strangers after it. */
async function rememberTokens(app: FastifyInstance): Promise<void> {
  try {
    app.requestLimits.remember(await recentCallers(app.database, mostRemembered));
  } catch (error) {
    if (!isPassing(error)) throw error;
    app.log.warn(
      { err: error },
      "cannot read which tokens were used last: a flood of wrong tokens may delay right ones",
    );
  }
}

function isPassing(error: unknown): boolean {
  return error instanceof DatabaseUnwritable || error instanceof DatabaseUnreachable || error instanceof DatabaseBusy;
}

async function buildApp(
  configuration: Configuration,
  surroundings: Surroundings,
  { database, health, observer }: { database: Database; health: StorageHealth; observer: StorageObserver },
  now: () => number,
): Promise<FastifyInstance> {
  const app = Fastify({
    serverFactory: (answer) => createBoundedServer(answer, pushUrl, surroundings.httpTimes ?? defaultHttpTimes),
    ...requestLogOptions(),
    bodyLimit: maxBodyBytes,
    trustProxy: configuration.trustedProxies.length > 0 && [...configuration.trustedProxies],
    // The router does not refuse a name that is too long: the route itself does, with its own error.
    routerOptions: { maxParamLength: 1024, querystringParser: readNoQuery },
    rewriteUrl: shortUrl,
    // Requests that arrive during a stop are still served: nothing is torn down before the last one.
    return503OnClosing: false,
    frameworkErrors: answerRefusedByRouter,
    clientErrorHandler: answerClientError,
    ajv: {
      onCreate: compileOnce,
      customOptions: {
        // Our schemas are constants: a test checks them, once, and not each start.
        validateSchema: false,
        // A misspelt parameter is reported, not dropped. All problems are reported at once, with the value that caused each.
        removeAdditional: false,
        coerceTypes: true,
        // "1e999" is parsed as infinity. With strictNumbers, ajv would not count that as a number, and would not check its
        // bounds.
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
      ...logOptions,
    },
  });
  // Responses are serialised as they are: a serialiser made from the response schemas would drop fields that the schemas
  // omit.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.decorate("now", now);
  app.decorate("totalBounds", configuration.totalBounds);

  const methods = watchMethods();
  await app.register(tracing, {
    options: configuration.tracing,
    databaseKind: configuration.database.kind,
    observer,
  });
  await app.register(clientAddress);
  await app.register(fairTurns, { knownOwners: (request) => app.knownOwners(request) });
  await app.register(securityHeaders);
  await app.register(requestLog);
  const uptimeMs = surroundings.uptimeMs ?? (() => performance.now());
  await app.register(minuteLog, { uptimeMs });
  await app.register(metrics);
  await app.register(storageMetrics, { observer });
  // Before everything that may refuse a request: refusals count too.
  await app.register(requestLimits, {
    allowances: configuration.requestAllowances,
    uptimeMs,
  });
  await app.register(errorResponses);
  await app.register(lastResponses);
  await app.register(unreadBodies);
  await app.register(wellFormedUrls);
  await app.register(websockets);
  await app.register(databasePlugin, { database, health });
  await app.register(tokenUses, { now });
  const { publicOrigin, openId } = configuration;
  await app.register(groups, { mapping: openId?.groups ?? new Map() });
  await app.register(sessions, { now, limits: configuration.sessions, publicOrigin });
  await app.register(authentication, { now, publicOrigin });
  await app.register(longReads);
  await app.register(documentBodies, { yamlDeadlineMs: surroundings.yamlDeadlineMs ?? defaultYamlDeadlineMs });
  await app.register(routeTable);
  await app.register(apiDescription);
  await app.register(methods.watch);
  const isShared = configuration.database.kind !== "sqlite";
  await app.register(activity, { now, isShared });
  await app.register(keptKeys, { now, isShared });
  await app.register(redis, { now, deployment: configuration.redis });
  await app.register(push, {
    now,
    uptimeMs,
    times: surroundings.pushTimes ?? defaultPushTimes,
    isShared,
    databaseChannel: await databaseChannelFor(configuration),
  });
  await app.register(retention, { now, retention: configuration.retention, sessions: configuration.sessions });
  await app.register(readiness);
  await app.register(healthRoutes);
  await app.register(api, {
    redisIsSet: configuration.redis !== undefined,
    publicOrigin,
    openId,
    logLevel: configuration.logLevel,
  });
  const { consoleDirectory: directory } = surroundings;
  if (directory !== undefined) await app.register(consolePages, { directory, hasOpenId: openId !== undefined });
  await app.register(methods.refuse);
  await app.ready();
  await warnOfLegacyApps(app);
  return app;
}

/**
 * Warns at each start, until an admin has set the realms of these apps: until then their editors may match, and answer,
 * everybody's requests.
 */
async function warnOfLegacyApps(app: FastifyInstance): Promise<void> {
  const apps = await listLegacyApps(app.database);
  if (apps.length === 0) return;
  app.log.warn(
    { apps },
    "these apps are from before there were realms, and their policies match all traffic: set a realm by PUT /api/v1/apps/{app}",
  );
}

/** @returns undefined if there is a Redis, which is used instead, or if the database has no such thing */
async function databaseChannelFor({ database, redis: itsRedis }: Configuration): Promise<PostgresChannel | undefined> {
  if (itsRedis !== undefined || database.kind !== "postgres") return undefined;
  return new (await import("./storage/engines/postgres-channel.ts")).PostgresChannel(database);
}

interface ApiOptions {
  readonly redisIsSet: boolean;
  readonly publicOrigin: string | undefined;
  readonly openId: OpenIdConfiguration | undefined;
  readonly logLevel: LogLevel;
}

const api = fp<ApiOptions>(
  async (app, { redisIsSet, publicOrigin, openId, logLevel }) => {
    const prefix = "/api/v1";
    await app.register(appRoutes, { prefix });
    await app.register(policyRoutes, { prefix, redisIsSet });
    await app.register(putPoliciesRoutes, { prefix, redisIsSet });
    await app.register(templateRoutes, { prefix });
    await app.register(libraryRoutes, { prefix });
    await app.register(networkListRoutes, { prefix });
    await app.register(banRoutes, { prefix });
    await app.register(consumerRoutes, { prefix });
    await app.register(tokenRoutes, { prefix });
    await app.register(memberRoutes, { prefix, signsInByOpenId: openId !== undefined });
    await app.register(sessionRoutes, { prefix, publicOrigin });
    await app.register(openIdRoutes, { prefix, openId, logLevel });
    await app.register(auditRoutes, { prefix });
    await app.register(revisionRoutes, { prefix, redisIsSet });
    await app.register(epochRoutes, { prefix });
    await app.register(gatewayRoutes, { prefix });
    await app.register(counterRoutes, { prefix });
    await app.register(activityRoutes, { prefix });
    await app.register(eventRoutes, { prefix });
  },
  { name: "api", dependencies: ["database", "authentication", "document-bodies", "push", "redis", "api-description"] },
);
