// The public surface of the client. Middlewares have entries of their own: "sluice-client/express", "/fastify" and "/hono".

export type { AcquireOptions, Check, CheckOptions, HoldOptions } from "./checks.ts";
export { type HeldDecision, SluiceClient } from "./client.ts";
export type { ClientOptions, TlsOptions } from "./client-options.ts";
export type { Decision, DecisionOfAll, ReportDecision, Source } from "./decision.ts";
export type { CallName, SluiceEvent } from "./events.ts";
export type { Hold } from "./hold.ts";
export { type Mistake, SluiceError } from "./sluice-error.ts";
