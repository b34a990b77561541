// PUT /api/v1/apps/{app}/policies: many policies in one body, all or nothing. Documents are validated while they arrive, outside of
// any transaction, and every fault is reported with its line.

import {
  addProblem,
  type Findings,
  listProblems,
  noFindings,
  problemCount,
} from "@sluice/limiter/document/problems.ts";
import type { Problem } from "@sluice/limiter/document/validate.ts";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { manyDocuments, type ReadDocument } from "../bodies/many-documents.ts";
import { type Bounds, boundsOf, mostDocumentBytes } from "../bounds/bounds.ts";
import { documentBytes, noSize, policySize } from "../bounds/policy-size.ts";
import { ApiError, countOfErrors, type LocatedProblem } from "../errors/api-error.ts";
import { refuseWarnings } from "../errors/refuse-warnings.ts";
import { callerOf, requireAccess } from "../plugins/authentication.ts";
import { manyTypes, takeManyDocuments } from "../plugins/document-bodies.ts";
import { fleetWarnings } from "../policies/fleet-warnings.ts";
import { missingListsOf } from "../policies/missing-lists.ts";
import { validatePut } from "../policies/validate-policy.ts";
import { contextOf } from "../policies/validate-realm.ts";
import type { Gateway } from "../push/fleet.ts";
import {
  allowEmptyParameter,
  appSegment,
  changeParameters,
  pruneParameter,
  querySchema,
  strictParameter,
} from "../schemas/parameters.ts";
import { namedPolicySchema } from "../schemas/policy-schema.ts";
import { answers, etagHeader } from "../schemas/responses.ts";
import { secretPartsOf } from "../secrets/secret-parts.ts";
import {
  type NewPolicy,
  putPolicies,
  readPolicyBytes,
  readSurroundings,
  type Surroundings,
} from "../storage/put-policies.ts";
import { announceChange, originOf } from "./applied.ts";
import { etagOf, preconditionOf } from "./preconditions.ts";

interface ManyPolicies {
  Params: { app: string };
  Querystring: { wait?: string; prune: boolean; allowEmpty: boolean; strict: boolean };
}

/** Names of policies are shorter. */
const longestName = 100;

export default async function putPoliciesRoutes(
  app: FastifyInstance,
  { redisIsSet }: { redisIsSet: boolean },
): Promise<void> {
  takeManyDocuments(app);

  app.put<ManyPolicies>(
    "/apps/:app/policies",
    {
      config: {
        access: "write",
        records: "revision",
        body: { ...namedPolicySchema, description: "Each document, on a line of JSON or as a document of YAML." },
        bodyTypes: manyTypes,
        conditions: "change",
        refuses: ["app-not-found", "invalid-policy", "bound-exceeded", "app-changing"],
      },
      schema: {
        tags: ["policies"],
        summary: "Store many policies, all or none",
        description:
          "The body has one policy on each line (`application/jsonl`), or YAML documents separated by `---` (`application/yaml`), at most 64 MiB. Each policy has its name. Policies that are not in the body stay as they are, unless `prune` is true. Errors name the line. If-Match takes the newest revision of the app, which the answer to each change by this route has as `ETag`; `If-None-Match: *` is for an app without policies.",
        params: { type: "object", properties: { app: appSegment } },
        querystring: querySchema({
          ...changeParameters,
          prune: pruneParameter,
          allowEmpty: allowEmptyParameter,
          strict: strictParameter,
        }),
        response: answers({ 200: "PoliciesChange" }, etagHeader),
      },
    },
    async (request, reply) => {
      const { app: name } = request.params;
      const { prune, allowEmpty } = request.query;
      const body = app.holdBody(request, manyDocuments);
      try {
        let surroundings = await readSurroundings(app.database, name);
        const bytesBefore = await readPolicyBytes(app.database, name);
        const check = new Check(app, request, redisIsSet, surroundings, bytesBefore);
        for await (const documents of app.readDocuments(request, body)) await check.take(documents);
        await check.end(prune && allowEmpty);
        // The body may have taken long to arrive. Whoever was disabled meanwhile changes nothing any more, and whoever ceased to be an
        // admin stores nothing that only admins may.
        const { isAdmin } = callerOf(request);
        request.caller = await app.identifyAgain(request);
        requireAccess(request.caller, "write", name);
        const isSameCaller = isAdmin === request.caller.isAdmin;
        body.stay();
        let policies = isSameCaller ? check.policies : await check.again(surroundings);
        const precondition = preconditionOf(request);
        const store = () => {
          const put = { app: name, policies, validatedWith: surroundings, prune, precondition, total: app.totalBounds };
          return putPolicies(app.database, originOf(request), put);
        };
        let result = await store();
        if ("changedTo" in result) {
          surroundings = result.changedTo;
          policies = await check.again(surroundings);
          result = await store();
        }
        if ("changedTo" in result) throw changing(name);
        const { revision, ...counts } = result;
        reply.header("etag", etagOf(revision));
        return { ...(await announceChange(app, reply, revision, request.query.wait)), ...counts, ...check.warned() };
      } finally {
        body.end();
      }
    },
  );
}

function changing(name: string): ApiError {
  const detail = `The realm or the templates of the app "${name}" changed twice while its policies were validated. Nothing was stored.`;
  return new ApiError("app-changing", detail, {}, { "retry-after": "1" });
}

/** Validates documents one by one, and keeps what is to be stored, or what is wrong. */
class Check {
  readonly policies = new Map<string, NewPolicy>();
  readonly #app: FastifyInstance;
  /** Listed once: to sort thousands for each document would take longer than to read it. */
  readonly #gateways: readonly Gateway[];
  readonly #request: FastifyRequest<ManyPolicies>;
  readonly #pause: () => Promise<void>;
  readonly #redisIsSet: boolean;
  readonly #surroundings: Surroundings;
  /** By the names of the stored policies. */
  readonly #bytesBefore: ReadonlyMap<string, number>;
  /** More of these is refused for certain, whatever else the app has. */
  readonly #most: Pick<Bounds, "policies" | "bytes">;
  readonly #errors = noFindings();
  readonly #warnings = noFindings();
  /** Whom the policies exempt, and where they say so. */
  readonly #exempts: { readonly exempt: unknown; readonly where: Located }[] = [];
  /** By the name: where it came first. */
  readonly #lines = new Map<string, number>();
  #documents = 0;
  #bytes = 0;
  #isMalformed = false;

  constructor(
    app: FastifyInstance,
    request: FastifyRequest<ManyPolicies>,
    redisIsSet: boolean,
    surroundings: Surroundings,
    bytesBefore: ReadonlyMap<string, number>,
  ) {
    this.#app = app;
    this.#gateways = app.fleet.list();
    this.#request = request;
    this.#pause = app.pausesOf(request);
    this.#redisIsSet = redisIsSet;
    this.#surroundings = surroundings;
    this.#bytesBefore = bytesBefore;
    const { name, bounds } = surroundings.owner;
    const { policies, bytes } = boundsOf(name, bounds, app.totalBounds);
    const usedBytes = [...bytesBefore.values()].reduce((sum, one) => sum + one, 0);
    // An app that has more than was allowed later keeps it.
    this.#most = { policies: Math.max(policies, bytesBefore.size), bytes: Math.max(bytes, usedBytes) };
  }

  /** @throws ApiError bound-exceeded if there are more documents, or larger ones, than the app may have */
  async take(documents: readonly ReadDocument[]): Promise<void> {
    for (const document of documents) {
      await this.#pause();
      this.#documents += 1;
      if (this.#documents > this.#most.policies) throw this.#exceeded("policies", document.line);
      this.#takeOne(document);
    }
  }

  /** @throws ApiError malformed-body, invalid-policy */
  async end(mayBeEmpty: boolean): Promise<void> {
    if (this.#documents === 0 && !mayBeEmpty) {
      const detail =
        "The body has no policy. To delete all policies of the app, send ?prune=true&allowEmpty=true. Nothing was stored.";
      throw new ApiError("malformed-body", detail);
    }
    const count = problemCount(this.#errors);
    if (count === 0) return this.#warn();
    const [first] = this.#errors.problems as LocatedProblem[];
    const where = first?.policy === undefined ? "" : ` (policy "${first.policy}")`;
    const detail = `${countOfErrors(count)} in the body, the first on line ${first?.line}${where}. Nothing was stored.`;
    const code = this.#isMalformed ? "malformed-body" : "invalid-policy";
    throw new ApiError(code, detail, { errors: listProblems(this.#errors) });
  }

  /** Validates what was valid before the app's realm or its templates changed. @throws ApiError invalid-policy, bound-exceeded */
  async again(surroundings: Surroundings): Promise<ReadonlyMap<string, NewPolicy>> {
    const check = new Check(this.#app, this.#request, this.#redisIsSet, surroundings, this.#bytesBefore);
    for (const [name, { document }] of this.policies) {
      await this.#pause();
      check.#takeOne({ line: this.#lines.get(name) ?? 0, document: JSON.parse(document) });
    }
    await check.end(true);
    return check.policies;
  }

  async #warn(): Promise<void> {
    const missing = await missingListsOf(
      this.#app.database,
      this.#surroundings.owner.name,
      this.#exempts.map(({ exempt }) => exempt),
    );
    missing.forEach((warnings, i) => void addLocated(this.#warnings, this.#exempts[i]?.where ?? {}, warnings));
    if (this.#request.query.strict) refuseWarnings("invalid-policy", listProblems(this.#warnings));
  }

  /** The field is absent if there are no warnings. */
  warned(): { warnings?: LocatedProblem[] } {
    return problemCount(this.#warnings) === 0 ? {} : { warnings: listProblems(this.#warnings) };
  }

  #takeOne(read: ReadDocument): void {
    const { line } = read;
    if ("fault" in read) {
      this.#isMalformed = true;
      addLocated(this.#errors, { line }, [{ path: "", ...read.fault }]);
      return;
    }
    const { name } = (read.document ?? {}) as { name?: unknown };
    const policy = typeof name === "string" ? name : undefined;
    const where = policy === undefined ? { line } : { line, policy: shortened(policy) };
    const bytesBefore = this.#bytesBefore.get(policy ?? "") ?? 0;
    const tooLarge = (bytes: number): Problem[] =>
      bytes <= Math.max(mostDocumentBytes, bytesBefore)
        ? []
        : [{ path: "", expected: `a document of at most ${mostDocumentBytes} bytes`, got: `${bytes} bytes` }];
    // Before it is validated, which may take long.
    const tooLargeAsWritten = tooLarge(documentBytes(read.document));
    if (tooLargeAsWritten.length > 0) {
      addLocated(this.#errors, where, tooLargeAsWritten);
      return;
    }
    const context = contextOf(this.#surroundings.owner, callerOf(this.#request));
    const validation = validatePut(read.document, undefined, this.#redisIsSet, this.#surroundings.templates, context);
    const problems = [...validation.problems];
    if (name === undefined && isObject(read.document)) {
      problems.unshift({ path: "name", expected: "the name of the policy", got: "nothing" });
    }
    const size = problems.length === 0 ? policySize(validation.resolved) : noSize;
    problems.push(...tooLarge(size.bytes));
    this.#bytes += size.bytes;
    if (this.#bytes > this.#most.bytes) throw this.#exceeded("bytes", line);
    if (policy !== undefined) {
      const first = this.#lines.get(policy);
      if (first !== undefined) {
        const expected = `a name that comes once, and line ${first} has it too`;
        problems.push({ path: "name", expected, got: JSON.stringify(shortened(policy)) });
      } else if (policy.length <= longestName) this.#lines.set(policy, line);
    }
    addLocated(this.#errors, where, problems);
    // What will not be stored is not kept.
    if (problemCount(this.#errors) > 0) {
      this.policies.clear();
      return;
    }
    if (policy === undefined) return;
    const { document } = validation;
    this.policies.set(policy, {
      document: JSON.stringify(document),
      secretParts: secretPartsOf(document),
      ...size,
    });
    addLocated(this.#warnings, where, [...validation.warnings, ...fleetWarnings(validation.resolved, this.#gateways)]);
    const { exempt } = document as { exempt?: unknown };
    if (exempt !== undefined) this.#exempts.push({ exempt, where });
  }

  #exceeded(bound: "policies" | "bytes", line: number): ApiError {
    const { name } = this.#surroundings.owner;
    const most = this.#most[bound];
    const expected = `at most ${most} of the app "${name}"`;
    const problem = { line, path: `bounds.${bound}`, expected, got: "more in the body" };
    const what = bound === "policies" ? "more policies" : "more bytes of policies";
    const detail = `The body has ${what} than the app "${name}" may have: more than ${most}, at line ${line}. Nothing was stored.`;
    return new ApiError("bound-exceeded", detail, { errors: [problem] });
  }
}

type Located = Pick<LocatedProblem, "line" | "policy">;

function addLocated(findings: Findings, where: Located, problems: readonly Problem[]): void {
  for (const problem of problems) {
    const located: LocatedProblem = { ...where, ...problem };
    addProblem(findings, located);
  }
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A name that is far too long is not repeated whole. */
function shortened(name: string): string {
  return name.length > longestName ? `${name.slice(0, longestName)}…` : name;
}
