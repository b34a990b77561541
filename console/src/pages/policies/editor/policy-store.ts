// Stores and deletes policies: what the control plane answers, and what to do so that it is as before.

import { answerOf, api, RequestError, type Schemas } from "../../../api/client.ts";
import type { Json } from "./draft.ts";

export type Changes = NonNullable<Schemas["PolicyChange"]["changes"]>;

export interface Stored {
  readonly revision: number;
  readonly etag: string;
  readonly warnings: readonly { readonly path: string; readonly expected: string; readonly got: string }[];
}

/** @param etag the version that is replaced; undefined: there must be none yet @throws RequestError, 412 if that is not so */
export async function store(app: string, name: string, document: Json, etag: string | undefined): Promise<Stored> {
  const asked = api.PUT("/api/v1/apps/{app}/policies/{policy}", {
    params: { path: { app, policy: name }, header: condition(etag) },
    body: document as never,
  });
  const { revision, warnings = [] } = await answerOf(asked);
  const { response } = await asked;
  return { revision, warnings, etag: response.headers.get("etag") ?? "" };
}

export interface Rehearsal {
  readonly changes: Changes;
  readonly gateways: readonly string[];
}

/** @returns what storing it would change, without changing anything @throws RequestError */
export async function rehearse(
  app: string,
  name: string,
  document: Json,
  etag: string | undefined,
): Promise<Rehearsal> {
  const { changes = [], gateways = [] } = await answerOf(
    api.PUT("/api/v1/apps/{app}/policies/{policy}", {
      params: { path: { app, policy: name }, query: { dryRun: true }, header: condition(etag) },
      body: document as never,
    }),
  );
  return { changes, gateways };
}

/** @throws RequestError */
export async function remove(app: string, name: string, etag: string): Promise<void> {
  await answerOf(
    api.DELETE("/api/v1/apps/{app}/policies/{policy}", {
      params: { path: { app, policy: name }, header: { "if-match": etag } },
    }),
  );
}

export function isConflict(error: unknown): boolean {
  return error instanceof RequestError && error.status === 412;
}

export function isMissing(error: unknown): boolean {
  return error instanceof RequestError && error.status === 404;
}

function condition(etag: string | undefined): { "if-match": string } | { "if-none-match": string } {
  return etag === undefined ? { "if-none-match": "*" } : { "if-match": etag };
}
