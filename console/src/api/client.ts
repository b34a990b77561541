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
let isLeaving = false;
/** What is to be done when the control plane does not know the session any more. */
let onEnd: () => void = () => undefined;
/** How far the control plane's clock is ahead of the browser's. */
let aheadMs = 0;
/** Less is the time on the way, and that the answer's date has no parts of a second. */
const leastAheadMs = 2_000;

/** When the session ends at the latest, how long it lasts without a request, and when this browser had the last answer. */
let endsMs = Number.POSITIVE_INFINITY;
let idleMs = Number.POSITIVE_INFINITY;
let usedMs = 0;
/** Other tabs are told of the last answer so often. */
const tellUseEveryMs = 10_000;
let toldUseMs = 0;

/** Other tabs hear who signs in, that somebody signs out, and that the session is used. A page of another origin, as of another port, does not. */
const tabs = new BroadcastChannel("sluice-session");
interface Heard {
  /** Undefined: they have signed out. */
  readonly who?: string | undefined;
  readonly usedMs?: number;
}
tabs.onmessage = ({ data }: MessageEvent<Heard>) => {
  if (whoIsSignedIn !== undefined && data.who !== whoIsSignedIn) leavePage();
  usedMs = Math.max(usedMs, data.usedMs ?? 0);
};

// A page that asks nothing by itself would be readable for as long as it is open. To ask is to use the session: so it asks when nothing has used it.
setInterval(() => {
  const isOver = nowMs() > endsMs || Date.now() > usedMs + idleMs + 2 * tellUseEveryMs;
  if (isOver) onEnd();
}, tellUseEveryMs);

/** Nothing of what was shown to somebody stays, in memory neither: the page is loaded again, and asks who signs in. */
function leavePage(): void {
  whoIsSignedIn = undefined;
  isLeaving = true;
  window.location.reload();
}

/** What is typed is gone on purpose then: no question may keep the page for the next person. */
export function isLeavingPage(): boolean {
  return isLeaving;
}

/** Somebody else may have signed in in another tab: then this page goes. */
export function noteSession({ csrfToken: token = "", who, endsAt, endsUnusedAt }: Schemas["Session"]): void {
  if (whoIsSignedIn !== undefined && who !== whoIsSignedIn) leavePage();
  endsMs = endsAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(endsAt);
  idleMs = endsUnusedAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(endsUnusedAt) - nowMs();
  csrfToken = token;
  whoIsSignedIn = who;
}

/** Called when somebody has signed in on this page. */
export function noteSignIn(session: Schemas["Session"]): void {
  noteSession(session);
  tabs.postMessage({ who: session.who } satisfies Heard);
}

/** Called when somebody has signed out on this page. */
export function noteSignOut(): void {
  tabs.postMessage({} satisfies Heard);
  window.location.replace("/sign-in");
}

export function whenSessionEnds(act: () => void): void {
  onEnd = act;
}

/** The time of the control plane, in ms since 1970: what it counted is shown by its own clock. */
export function nowMs(): number {
  return Date.now() + aheadMs;
}

/**
 * Somebody may have signed in again in another tab, with which the session has another CSRF token: that one is asked for, once. If it was
 * somebody else, the control plane refuses to show anything to this page.
 */
async function ask(request: Request): Promise<Response> {
  const again = request.clone();
  const response = await fetch(request);
  noteTime(response);
  // Others, such as readyz, ask for no session.
  if (new URL(request.url).pathname.startsWith("/api/v1/")) noteUse(response);
  if (response.status === 401 && new URL(request.url).pathname !== sessionPath) onEnd();
  if (response.status !== 403) return response;
  const problem: unknown = await response
    .clone()
    .json()
    .catch(() => undefined);
  if (!isProblem(problem) || problem.code !== "cross-site-request") return response;
  const answer = await fetch(sessionPath, { credentials: "same-origin" });
  if (!answer.ok) return response;
  const session = (await answer.json()) as Schemas["Session"];
  const isAnother = session.who !== whoIsSignedIn;
  noteSession(session);
  // Nobody acts in the name of somebody else.
  if (isAnother) return response;
  again.headers.set("x-csrf-token", csrfToken);
  return fetch(again);
}

function noteTime(response: Response): void {
  const difference = Date.parse(response.headers.get("date") ?? "") - Date.now();
  if (!Number.isNaN(difference)) aheadMs = Math.abs(difference) < leastAheadMs ? 0 : difference;
}

function noteUse({ status }: Response): void {
  if (status === 401) {
    endsMs = Number.POSITIVE_INFINITY;
    idleMs = Number.POSITIVE_INFINITY;
    return;
  }
  usedMs = Date.now();
  if (whoIsSignedIn === undefined || usedMs - toldUseMs < tellUseEveryMs) return;
  toldUseMs = usedMs;
  tabs.postMessage({ who: whoIsSignedIn, usedMs } satisfies Heard);
}

const sessionHeaders: Middleware = {
  onRequest({ request }) {
    const asksWho = request.method === "GET" && new URL(request.url).pathname === sessionPath;
    if (!asksWho && csrfToken !== "") request.headers.set("x-csrf-token", csrfToken);
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
