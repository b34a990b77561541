// /api/v1/apps/{app}/networks: named lists of networks, which exemptions and bans refer to. A list comes whole in one body, one network
// on each line, and replaces the former one at once.

import type { Readable } from "node:stream";
import { isName, nameRule } from "@sluice/limiter/document/policy-shape.ts";
import { listProblems, maxProblems, noFindings, problemCount } from "@sluice/limiter/document/problems.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { BodyKind } from "../bodies/bodies-held.ts";
import { ApiError, countOfErrors } from "../errors/api-error.ts";
import { isKnown } from "../http/etags.ts";
import { readNetworks } from "../networks/read-networks.ts";
import {
  afterParameter,
  appSegment,
  changeParameters,
  limitParameter,
  networksSegment,
  querySchema,
} from "../schemas/parameters.ts";
import { invalidRequest } from "../schemas/read-body.ts";
import { answers, etagHeader } from "../schemas/responses.ts";
import {
  deleteNetworkList,
  getNetworkList,
  listNetworkLists,
  type NetworkListSummary,
  putNetworkList,
} from "../storage/network-lists.ts";
import { announceChange, originOf } from "./applied.ts";
import { etagOf, preconditionOf } from "./preconditions.ts";

const appParams = { type: "object", properties: { app: appSegment } } as const;
const params = { type: "object", properties: { app: appSegment, networks: networksSegment } } as const;
const tags = ["networks"];
const bodyTypes = ["text/plain"];

interface OneList {
  Params: { app: string; networks: string };
  Querystring: { wait?: string };
}

interface PutList extends OneList {
  Querystring: { wait?: string; allowEmpty: boolean };
}

export default async function networkListRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Params: { app: string }; Querystring: { after: string; limit: number } }>(
    "/apps/:app/networks",
    {
      config: { access: "read", refuses: ["app-not-found"] },
      schema: {
        tags,
        summary: "List an app's lists of networks by name",
        params: appParams,
        querystring: querySchema({ after: afterParameter, limit: limitParameter }),
        response: answers({ 200: "NetworkListPage" }),
      },
    },
    async (request) => {
      const { after, limit } = request.query;
      const found = await listNetworkLists(app.database, request.params.app, after, limit + 1);
      const lists = found.slice(0, limit);
      return { lists: lists.map(shown), next: found.length > limit ? lists.at(-1)?.name : undefined };
    },
  );

  app.get<OneList>(
    "/apps/:app/networks/:networks",
    {
      config: { access: "read", conditions: "read", refuses: ["app-not-found", "networks-not-found"] },
      schema: {
        tags,
        summary: "Read a list of networks",
        params,
        querystring: querySchema({}),
        response: answers({ 200: "NetworkList" }, etagHeader),
      },
    },
    async (request, reply) => {
      const found = await getNetworkList(app.database, request.params.app, request.params.networks);
      const etag = etagOf(found.revision);
      reply.header("etag", etag);
      return isKnown(request, etag) ? reply.code(304).send() : { ...shown(found), networks: found.networks };
    },
  );

  app.delete<OneList>(
    "/apps/:app/networks/:networks",
    {
      config: {
        access: "write",
        records: "revision",
        conditions: "change",
        refuses: ["app-not-found", "networks-not-found", "networks-in-use"],
      },
      schema: {
        tags,
        summary: "Delete a list of networks that nothing refers to",
        params,
        querystring: querySchema(changeParameters),
        response: answers({ 200: "Change" }),
      },
    },
    async (request, reply) => {
      const { app: appName, networks: name } = request.params;
      const precondition = preconditionOf(request);
      const revision = await deleteNetworkList(app.database, originOf(request), appName, name, precondition);
      return announceChange(app, reply, revision, request.query.wait);
    },
  );

  await app.register(putRoute);
}

/** A hundred thousand of the longest networks, and comments, which take some 50 MB until they are stored. */
const listOfNetworks: BodyKind = {
  mostBytes: 8 * 1_048_576,
  tooLarge: "The body is larger than 8 MiB, the most for a list of networks. Nothing was stored.",
  bytesForEach: 6,
  leastBytes: 0,
};

/** Has a parser of its own for bodies. */
async function putRoute(app: FastifyInstance): Promise<void> {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(bodyTypes, async ({ headers }: FastifyRequest, stream: Readable) => {
    const encoding = headers["content-encoding"] ?? "identity";
    if (encoding === "identity") return stream;
    throw new ApiError("unsupported-media-type", `Content-Encoding: expected none, got ${JSON.stringify(encoding)}.`);
  });
  app.addContentTypeParser("*", async ({ headers }: FastifyRequest) => {
    const given = headers["content-type"];
    const got = given === undefined || given === "" ? "none" : JSON.stringify(given);
    throw new ApiError("unsupported-media-type", `Content-Type: expected ${bodyTypes.join(" or ")}, got ${got}.`);
  });

  app.put<PutList>(
    "/apps/:app/networks/:networks",
    {
      config: {
        access: "write",
        records: "revision",
        body: { type: "string", description: "A network on each line." },
        bodyTypes,
        conditions: "change",
        refuses: ["app-not-found", "invalid-networks", "bound-exceeded"],
      },
      schema: {
        tags,
        summary: "Store a list of networks, whole, and push it",
        description: `The body has a network or an address on each line, of IPv4 or IPv6, at most 100,000 and ${listOfNetworks.mostBytes / 1_048_576} MiB. Empty lines, and what follows "#" or ";", are ignored. Policies, exemptions of apps and bans refer to the list as "@" and its name; those of other apps do if the list is of app default. It replaces the former list at once: no request is compared with a part of both.`,
        params,
        querystring: querySchema({
          ...changeParameters,
          allowEmpty: {
            type: "boolean",
            default: false,
            description: "Accept a body without any network in the place of a list that has some.",
            "x-expected": "true or false",
          },
        }),
        response: answers({ 200: "Change", 201: "Change" }, etagHeader),
      },
    },
    async (request, reply) => {
      const { app: appName, networks: name } = request.params;
      if (!isName(name)) throw invalidRequest({ path: "name", expected: nameRule, got: describeValue(name) });
      const precondition = preconditionOf(request);
      const body = app.holdBody(request, listOfNetworks);
      try {
        const findings = noFindings();
        const bytes =
          request.body === undefined
            ? Buffer.alloc(0)
            : await body.whole(request.body as Readable, () => app.ownTurn(request));
        await body.orGivenWay(app.ownTurn(request));
        const text = bytes.toString();
        const list = await readNetworks(text, findings, app.pausesOf(request));
        const count = problemCount(findings);
        if (count > 0) {
          const errors = listProblems(findings);
          const more = count < maxProblems ? "" : " Lines after these were not read.";
          const detail = `${countOfErrors(count)} in the body.${more} Nothing was stored.`;
          throw new ApiError("invalid-networks", detail, { errors });
        }
        body.stay();
        const mayBecomeEmpty = request.query.allowEmpty;
        const put = { app: appName, name, list, mayBecomeEmpty, precondition, total: app.totalBounds };
        const { revision, created } = await putNetworkList(app.database, originOf(request), put);
        reply.code(created ? 201 : 200).header("etag", etagOf(revision));
        return announceChange(app, reply, revision, request.query.wait);
      } finally {
        body.end();
      }
    },
  );
}

function shown({ name, count, bytes, revision, updatedAtMs }: NetworkListSummary) {
  return { name, etag: etagOf(revision), revision, updatedAt: new Date(updatedAtMs).toISOString(), count, bytes };
}
