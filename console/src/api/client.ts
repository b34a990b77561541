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

const sessionPath = "/api/v1/session";
let csrfToken = "";
let whoIsSignedIn: string | undefined;
/** What is to be done when the control plane does not know the session any more. */
let onEnd: () => void = () => undefined;
/** How far the control plane's clock is ahead of the browser's. */
let aheadMs = 0;
/** Less is the time on the way, and that the answer's date has no parts of a second. */
const leastAheadMs = 2_000;

export function noteSession({ csrfToken: token = "", who }: Schemas["Session"]): void {
  csrfToken = token;
  whoIsSignedIn = who;
}

export function whenSessionEnds(act: () => void): void {
  onEnd = act;
}

/** The time of the control plane, in ms since 1970: what it counted is shown by its own clock. */
export function nowMs(): number {
  return Date.now() + aheadMs;
}

/** Somebody may have signed in again in another tab, with which the session has another CSRF token: that one is asked for, once. */
async function ask(request: Request): Promise<Response> {
  const again = request.method === "GET" ? undefined : request.clone();
  const response = await fetch(request);
  noteTime(response);
  if (response.status === 401 && new URL(request.url).pathname !== sessionPath) onEnd();
  if (again === undefined || response.status !== 403) return response;
  const problem: unknown = await response
    .clone()
    .json()
    .catch(() => undefined);
  if (!isProblem(problem) || problem.code !== "cross-site-request") return response;
  const answer = await fetch(sessionPath, { credentials: "same-origin" });
  if (!answer.ok) return response;
  const session = (await answer.json()) as Schemas["Session"];
  // Nobody acts in the name of somebody else.
  if (session.who !== whoIsSignedIn) return response;
  noteSession(session);
  again.headers.set("x-csrf-token", csrfToken);
  return fetch(again);
}

function noteTime(response: Response): void {
  const difference = Date.parse(response.headers.get("date") ?? "") - Date.now();
  if (!Number.isNaN(difference)) aheadMs = Math.abs(difference) < leastAheadMs ? 0 : difference;
}

const sessionHeaders: Middleware = {
  onRequest({ request }) {
    if (request.method !== "GET" && csrfToken !== "") request.headers.set("x-csrf-token", csrfToken);
  },
  onError() {
    return new RequestError(undefined, undefined);
  },
};

export const api = createClient<paths>({ baseUrl: "/", credentials: "same-origin", fetch: ask });
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
