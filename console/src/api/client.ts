// Asks the control plane. The browser sends the session's cookie by itself; what changes something also needs the session's CSRF token.

import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./schema.d.ts";

export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];

/** The control plane refused, or could not answer. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  /** Absent: there was no answer, or none of the control plane. */
  readonly problem: Problem | undefined;
  readonly status: number | undefined;

  constructor(status: number | undefined, problem: Problem | undefined) {
    super(problem?.detail ?? (status === undefined ? "no answer" : `status ${status}`));
    this.status = status;
    this.problem = problem;
  }
}

let csrfToken = "";

export function noteSession({ csrfToken: token = "" }: Schemas["Session"]): void {
  csrfToken = token;
}

const sessionHeaders: Middleware = {
  onRequest({ request }) {
    if (request.method !== "GET" && csrfToken !== "") request.headers.set("x-csrf-token", csrfToken);
  },
  onError() {
    return new RequestError(undefined, undefined);
  },
};

export const api = createClient<paths>({ baseUrl: "/", credentials: "same-origin" });
api.use(sessionHeaders);

/** @throws RequestError */
export async function answerOf<Data>(
  asked: Promise<{ data?: Data; error?: unknown; response: Response }>,
): Promise<Data> {
  const { data, error, response } = await asked;
  if (data !== undefined) return data;
  throw new RequestError(response.status, isProblem(error) ? error : undefined);
}

function isProblem(error: unknown): error is Problem {
  return typeof error === "object" && error !== null && "code" in error && "detail" in error;
}
