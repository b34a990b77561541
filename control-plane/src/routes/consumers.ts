// /api/v1/apps/{app}/consumers: who has which plan. There may be a million: they are no part of the history, and gateways get each change
// by itself. Many come in one body: they are validated first and stored in small parts, so that others are served meanwhile.

import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import {
  addProblem,
  type Findings,
  listProblems,
  maxProblems,
  noFindings,
  type Problem,
  problemCount,
} from "@sluice/limiter/document/problems.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { HeldBody } from "../bodies/bodies-held.ts";
import { manyDocuments, type ReadDocument } from "../bodies/many-documents.ts";
import { ApiError, countOfErrors, type LocatedProblem, problemDocument } from "../errors/api-error.ts";
import { refuseWarnings } from "../errors/refuse-warnings.ts";
import { isKnown } from "../http/etags.ts";
import { callerOf } from "../plugins/authentication.ts";
import { linesTypes, takeManyDocuments } from "../plugins/document-bodies.ts";
import { apiErrorFrom } from "../plugins/error-responses.ts";
import { ConsumerWarnings, KnownPlans } from "../policies/consumer-warnings.ts";
import {
  consumerShape,
  describedId,
  idRule,
  isConsumerId,
  namedConsumerShape,
  readConsumer,
  readNamedConsumer,
} from "../schemas/consumer-body.ts";
import {
  appSegment,
  changeParameters,
  consumerSegment,
  limitParameter,
  parseWait,
  querySchema,
  strictParameter,
  waitParameter,
} from "../schemas/parameters.ts";
import { schemaOf } from "../schemas/policy-schema.ts";
import { invalidRequest, refuseProblems } from "../schemas/read-body.ts";
import { answers, etagHeader } from "../schemas/responses.ts";
import { openCursor, sealCursor } from "../secrets/sealed-cursor.ts";
import type { Origin } from "../storage/change.ts";
import { consumersAtOnce } from "../storage/consumer-changes.ts";
import {
  beginImport,
  deleteOthers,
  endImport,
  type Import,
  type ImportCounts,
  putSome,
  readMostImported,
} from "../storage/consumer-imports.ts";
import {
  type Consumer,
  deleteConsumer,
  getConsumer,
  listConsumers,
  type NamedTerms,
  putConsumer,
} from "../storage/consumers.ts";
import { readProofKey } from "../storage/proof-key.ts";
import type { Database } from "../storage/tables.ts";
import { readUsage } from "../storage/usage.ts";
import { originOf } from "./applied.ts";
import { etagOf, preconditionOf } from "./preconditions.ts";
import { areIdsHiddenFrom, hiderOf, refuseGuesses } from "./readers.ts";

const tags = ["consumers"];
const appParams = { type: "object", properties: { app: appSegment } } as const;
const params = { type: "object", properties: { app: appSegment, consumer: consumerSegment } } as const;

interface OneConsumer {
  Params: { app: string; consumer: string };
  Querystring: { wait?: string; dryRun: boolean; strict: boolean };
}

interface ConsumersQuery {
  after: string;
  limit: number;
  prefix: string;
  plan?: string;
}

/** Ends of pages, for those from whom ids are hidden. */
class SealedCursors {
  readonly #secret: string;
  readonly #purpose: string;

  private constructor(secret: string, app: string) {
    this.#secret = secret;
    this.#purpose = `consumers of ${app}`;
  }

  static async of(database: Database, app: string): Promise<SealedCursors> {
    return new SealedCursors(await readProofKey(database), app);
  }

  seal(id: string): string {
    return sealCursor(this.#secret, this.#purpose, id);
  }

  /** @throws ApiError invalid-request */
  open(after: string): string {
    const id = after === "" ? "" : openCursor(this.#secret, this.#purpose, after);
    if (id !== undefined) return id;
    throw invalidRequest({ path: "after", expected: "`next` of the previous page", got: describeValue(after) });
  }
}

function hiddenIds(app: string): string {
  return `The ids of consumers of the app "${app}" may be credentials, which only those see who may change consumers.`;
}

const textOfQuery = (description: string, expected: string) =>
  ({ type: "string", default: "", description, "x-expected": expected }) as const;

export default async function consumerRoutes(app: FastifyInstance): Promise<void> {
  const plans = new KnownPlans(app.database);
  app.get<{ Params: { app: string }; Querystring: ConsumersQuery }>(
    "/apps/:app/consumers",
    {
      config: { access: "read", refuses: ["app-not-found"] },
      schema: {
        tags,
        summary: "List an app's consumers, by their ids",
        description:
          "If ids may be credentials, by a policy with `planBy: consumer`, who may not change consumers sees a digest in place of each, and cannot search for them.",
        params: appParams,
        querystring: querySchema({
          after: textOfQuery("Return consumers after this id: `next` of the previous page.", "an id, once"),
          prefix: textOfQuery("Return consumers whose ids begin so.", "the beginning of an id, once"),
          plan: { type: "string", description: "Return consumers with this plan.", "x-expected": "a plan, once" },
          limit: limitParameter,
        }),
        response: answers({ 200: "ConsumerPage" }),
      },
    },
    async (request) => {
      const { prefix, plan, limit } = request.query;
      const { app: name } = request.params;
      const cursors = (await areIdsHiddenFrom(request, name)) ? await SealedCursors.of(app.database, name) : undefined;
      if (cursors !== undefined && prefix !== "") {
        throw refuseGuesses(`${hiddenIds(name)} They cannot be searched for.`);
      }
      const after = cursors?.open(request.query.after) ?? request.query.after;
      const { consumers, hasMore } = await listConsumers(app.database, name, { after, prefix, plan, limit });
      const { consumers: count } = await readUsage(app.database, name);
      const last = hasMore ? consumers.at(-1)?.id : undefined;
      if (cursors === undefined) return { count, consumers: consumers.map(listed), next: last };
      const hide = hiderOf(app, name);
      return {
        count,
        idsHidden: true,
        consumers: consumers.map((consumer) => ({ ...listed(consumer), id: hide(consumer.id) })),
        next: last && cursors.seal(last),
      };
    },
  );

  app.get<OneConsumer>(
    "/apps/:app/consumers/:consumer",
    {
      config: { access: "read", conditions: "read", refuses: ["app-not-found", "consumer-not-found"] },
      schema: {
        tags,
        summary: "Read a consumer",
        description: "If ids may be credentials, this is refused to those who may not change consumers.",
        params,
        querystring: querySchema({}),
        response: answers({ 200: "Consumer" }, etagHeader),
      },
    },
    async (request, reply) => {
      const { app: name, consumer } = request.params;
      if (await areIdsHiddenFrom(request, name)) throw refuseGuesses(`${hiddenIds(name)} None can be read by its id.`);
      const found = listed(await getConsumer(app.database, name, consumer));
      reply.header("etag", found.etag);
      return isKnown(request, found.etag) ? reply.code(304).send() : found;
    },
  );

  app.put<OneConsumer>(
    "/apps/:app/consumers/:consumer",
    {
      config: {
        access: "write",
        records: "audit",
        body: schemaOf(consumerShape),
        conditions: "change",
        refuses: ["app-not-found", "bound-exceeded"],
      },
      schema: {
        tags,
        summary: "Give a consumer a plan, and push it",
        description:
          "Of policies with `planBy: consumer`: the first value of the key is the consumer's id. In a URL, an id is percent-encoded.",
        params,
        querystring: querySchema({ ...changeParameters, strict: strictParameter }),
        response: answers({ 200: "ConsumerChange", 201: "ConsumerChange" }, etagHeader),
      },
    },
    async (request, reply) => {
      const { app: name } = request.params;
      const id = requireId(request.params.consumer);
      const findings = noFindings();
      const terms = readConsumer(request.body, findings);
      refuseProblems(listProblems(findings));
      if (terms === undefined) throw new Error("a consumer without problems was not read");
      const pause = app.pausesOf(request);
      const warnings = await new ConsumerWarnings(app.database, name, pause, await plans.of(name)).of(terms);
      if (request.query.strict) refuseWarnings("invalid-request", warnings);
      const put = await putConsumer(app.database, originOf(request), {
        app: name,
        consumer: { id, ...terms },
        precondition: preconditionOf(request),
        total: app.totalBounds,
      });
      const { position } = put.consumer;
      if (!request.query.dryRun) reply.code(put.created ? 201 : 200).header("etag", etagOf(position));
      const applied = await announce(app, reply, position, request.query);
      return { ...shown(put.consumer), position, ...applied, ...reported(warnings) };
    },
  );

  app.delete<OneConsumer>(
    "/apps/:app/consumers/:consumer",
    {
      config: {
        access: "write",
        records: "audit",
        conditions: "change",
        refuses: ["app-not-found", "consumer-not-found"],
      },
      schema: {
        tags,
        summary: "Delete a consumer, whose requests have the default plan then",
        params,
        querystring: querySchema(changeParameters),
        response: answers({ 200: "ConsumerChange" }),
      },
    },
    async (request, reply) => {
      const { app: name, consumer } = request.params;
      const precondition = preconditionOf(request);
      const position = await deleteConsumer(app.database, originOf(request), name, consumer, precondition);
      return { position, ...(await announce(app, reply, position, request.query)) };
    },
  );

  await app.register(importRoute);
}

interface ManyConsumers {
  Params: { app: string };
  Querystring: { wait?: string; replace: boolean; allowEmpty: boolean; progress: boolean; strict: boolean };
}

const flag = (description: string) =>
  ({ type: "boolean", default: false, description, "x-expected": "true or false" }) as const;

/** How often an import says how far it is. */
const progressEveryMs = 500;

/** Has parsers of its own for bodies. */
async function importRoute(app: FastifyInstance): Promise<void> {
  takeManyDocuments(app);

  app.put<ManyConsumers>(
    "/apps/:app/consumers",
    {
      config: {
        access: "write",
        records: "audit",
        body: { ...schemaOf(namedConsumerShape), description: "Each consumer, on a line of JSON." },
        bodyTypes: linesTypes,
        refuses: ["app-not-found", "invalid-consumers", "bound-exceeded", "import-under-way"],
      },
      schema: {
        tags,
        summary: "Store many consumers",
        description:
          "The body has one consumer on each line (`application/jsonl`), with its id: at most 64 MiB, which hold a million; several bodies may follow each other. All lines are validated before any is stored, and errors name the line. An import for which there is no room changes nothing. An app has one import at a time. They are stored in parts: what an import that breaks off has stored stays, and to send the body again goes on from there. With `progress`, the answer is `application/x-ndjson`: a line twice a second while they are stored, and the last one as without it, or with `error`.",
        params: appParams,
        querystring: querySchema({
          wait: waitParameter,
          replace: flag("Delete the app's consumers that are not in the body."),
          allowEmpty: flag("With `replace`: accept a body without any consumer, which deletes all of them."),
          progress: flag("Answer while the consumers are stored, line by line."),
          strict: strictParameter,
        }),
        response: answers({ 200: importAnswer }),
      },
    },
    async (request, reply) => {
      const { app: name } = request.params;
      const { replace, allowEmpty, progress } = request.query;
      const body = app.holdBody(request, manyDocuments);
      let answer: Readable | undefined;
      try {
        const most = await readMostImported(app.database, name, app.totalBounds);
        const read = app.readDocuments(request, body);
        const warnings = noFindings();
        const consumers = await readConsumers(app, request, read, replace && allowEmpty, most, warnings);
        const warned = reported(listProblems(warnings));
        if (request.query.strict) refuseWarnings("invalid-consumers", warned.warnings ?? []);
        const origin = originOf(request);
        const underWay = await beginImport(app.database, origin, name, consumers, replace, app.totalBounds);
        const work = storeConsumers(app, request, origin, underWay, consumers, body);
        if (progress) {
          reply.type("application/x-ndjson; charset=utf-8").header("x-accel-buffering", "no");
          // It is stored while the answer is read.
          answer = Readable.from(linesOf(app, reply, request, work, warned)).once("close", () => body.end());
          return answer;
        }
        let last: Progress | undefined;
        for await (const one of work) last = one;
        return { ...last, ...(await announce(app, reply, last?.position ?? 0, request.query)), ...warned };
      } finally {
        if (answer === undefined) body.end();
      }
    },
  );
}

const importAnswer = {
  description: "What was done.",
  content: {
    "application/json": { schema: { $ref: "ConsumersChange#" } },
    "application/x-ndjson": { schema: { type: "string", description: "Lines of JSON." } },
  },
};

interface Warned {
  readonly warnings?: readonly LocatedProblem[];
}

/** The field is absent if there are no warnings. */
function reported(warnings: readonly LocatedProblem[]): Warned {
  return warnings.length === 0 ? {} : { warnings };
}

interface Progress extends ImportCounts {
  readonly done: number;
  readonly of: number;
}

/**
 * Reads and validates the lines, until there are too many of them or a hundred faults.
 *
 * @param most how many consumers there may be
 * @param warnings receives those of the first lines that have some
 * @throws ApiError invalid-consumers, malformed-body, bound-exceeded, or what the body does
 */
async function readConsumers(
  app: FastifyInstance,
  request: FastifyRequest<ManyConsumers>,
  read: AsyncIterable<readonly ReadDocument[]>,
  mayBeEmpty: boolean,
  most: number,
  warnings: Findings,
): Promise<Map<string, NamedTerms>> {
  const consumers = new Map<string, NamedTerms>();
  const errors = noFindings();
  const pause = app.pausesOf(request);
  const warningsOf = new ConsumerWarnings(app.database, request.params.app, pause);
  let isMalformed = false;
  let count = 0;
  const at = (line: number, problem: Problem): LocatedProblem => ({ line, ...problem });
  const add = (line: number, problem: Problem) => addProblem(errors, at(line, problem));
  const refuse = () => {
    const found = problemCount(errors);
    const [first] = errors.problems as LocatedProblem[];
    const more = found < maxProblems ? "" : " Lines after these were not read.";
    const detail = `${countOfErrors(found)} in the body, the first on line ${first?.line}.${more} Nothing was stored.`;
    return new ApiError(isMalformed ? "malformed-body" : "invalid-consumers", detail, { errors: listProblems(errors) });
  };
  for await (const documents of read) {
    for (const document of documents) {
      await pause();
      const { line } = document;
      count += 1;
      if (count > most) throw tooMany(request.params.app, most, line);
      if (problemCount(errors) >= maxProblems) throw refuse();
      if ("fault" in document) {
        isMalformed = true;
        add(line, { path: "", ...document.fault });
        continue;
      }
      const findings = noFindings();
      const consumer = readNamedConsumer(document.document, findings);
      for (const problem of listProblems(findings)) add(line, problem);
      if (consumer === undefined) continue;
      if (consumers.has(consumer.id)) {
        add(line, { path: "id", expected: "an id that no line before has", got: describedId(consumer.id) });
      } else consumers.set(consumer.id, consumer);
      if (problemCount(warnings) >= maxProblems) continue;
      for (const warning of await warningsOf.of(consumer)) addProblem(warnings, at(line, warning));
    }
  }
  if (problemCount(errors) > 0) throw refuse();
  if (consumers.size === 0 && !mayBeEmpty) {
    const detail =
      "The body has no consumer. To delete all consumers of the app, send ?replace=true&allowEmpty=true. Nothing was stored.";
    throw new ApiError("malformed-body", detail);
  }
  return consumers;
}

function tooMany(name: string, most: number, line: number): ApiError {
  const problem = {
    line,
    path: "bounds.consumers",
    expected: `at most ${most} of the app "${name}"`,
    got: "more in the body",
  };
  const detail = `The body has more consumers than the app "${name}" may have: more than ${most}, at line ${line}. Nothing was stored.`;
  return new ApiError("bound-exceeded", detail, { errors: [problem] });
}

/**
 * Stores consumers in parts, and says now and then how far it is; at the end too.
 * @throws ApiError that says what was stored, if something was
 */
async function* storeConsumers(
  app: FastifyInstance,
  request: FastifyRequest<ManyConsumers>,
  origin: Origin,
  underWay: Import,
  consumers: ReadonlyMap<string, NamedTerms>,
  body: HeldBody,
): AsyncGenerator<Progress> {
  const counts: ImportCounts = { created: 0, changed: 0, unchanged: 0, deleted: 0, position: 0 };
  const of = consumers.size;
  let done = 0;
  let saidMs = performance.now();
  const isDue = () => {
    if (performance.now() - saidMs < progressEveryMs) return false;
    saidMs = performance.now();
    return true;
  };
  try {
    // Those that go make room for those that come.
    for (let after: string | undefined = request.query.replace ? "" : undefined; after !== undefined; ) {
      body.check();
      after = await deleteOthers(app.database, origin, underWay, after, (id) => consumers.has(id), counts);
      if (isDue()) yield { done, of, ...counts };
      await setImmediate();
    }
    let part: NamedTerms[] = [];
    for (const consumer of consumers.values()) {
      part.push(consumer);
      if (part.length < consumersAtOnce && done + part.length < of) continue;
      body.check();
      await putSome(app.database, origin, underWay, part, counts);
      done += part.length;
      part = [];
      app.consumerFeed.noteChanged();
      if (isDue()) yield { done, of, ...counts };
      await setImmediate();
    }
  } catch (error) {
    throw brokenOff(error, request, counts);
  } finally {
    app.consumerFeed.noteChanged();
    try {
      await endImport(app.database, underWay);
    } catch (error) {
      // It counts as under way for half a minute then. What it has stored does not depend on this.
      const what = "cannot store that an import of consumers has ended";
      app.minuteLog.say("warn", what, { requestId: request.id, err: error }, what);
    }
  }
  if (counts.position === 0) counts.position = app.consumerFeed.newest.position;
  yield { done, of, ...counts };
}

function brokenOff(thrown: unknown, request: FastifyRequest, { created, changed, deleted }: ImportCounts): ApiError {
  const hasStored = created + changed + deleted > 0;
  const error = apiErrorFrom(thrown, request, hasStored);
  if (!hasStored) return error;
  const detail = `The import broke off: ${error.message} It has created ${created} consumers, changed ${changed} and deleted ${deleted} by then, and they stay so.`;
  const stored = { created, changed, deleted };
  return new ApiError(error.code, detail, { ...error.extras, stored }, { ...error.headers });
}

async function* linesOf(
  app: FastifyInstance,
  reply: FastifyReply,
  request: FastifyRequest<ManyConsumers>,
  work: AsyncIterable<Progress>,
  warned: Warned,
): AsyncGenerator<string> {
  try {
    let last: Progress | undefined;
    for await (const one of work) {
      if (last !== undefined) yield `${JSON.stringify(last)}\n`;
      last = one;
    }
    const applied = await announce(app, reply, last?.position ?? 0, request.query);
    yield `${JSON.stringify({ ...last, ...applied, ...warned })}\n`;
  } catch (error) {
    yield `${JSON.stringify({ error: problemDocument(apiErrorFrom(error, request)) })}\n`;
  }
}

/** Pushes what was changed and, with `wait`, waits until the gateways decide by it. */
async function announce(
  app: FastifyInstance,
  reply: FastifyReply,
  position: number,
  { wait, dryRun = false }: { wait?: string; dryRun?: boolean },
) {
  if (dryRun) return { dryRun: true };
  app.consumerFeed.noteChanged();
  const waitMs = wait === undefined ? undefined : parseWait(wait);
  if (waitMs === undefined) return {};
  await app.consumerFeed.publish();
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  const { id, member, roles } = callerOf(reply.request);
  const { app: of } = reply.request.params as { app: string };
  const asker = { tokenId: id, app: roles.size === 1 ? [...roles.keys()][0] : member, of };
  const { gateways, acked } = await app.consumerWaits.wait(position, waitMs, asker, gone.signal);
  return { applied: { gateways, acked } };
}

/** @throws ApiError invalid-request */
function requireId(id: string): string {
  if (isConsumerId(id)) return id;
  throw invalidRequest({ path: "consumer", expected: idRule, got: describedId(id) });
}

function listed(consumer: Consumer) {
  return { ...shown(consumer), etag: etagOf(consumer.position) };
}

function shown({ id, plan, overrides, changedAtMs }: Consumer) {
  return {
    id,
    plan,
    ...(overrides === null ? {} : { overrides: JSON.parse(overrides) }),
    changedAt: new Date(changedAtMs).toISOString(),
  };
}
