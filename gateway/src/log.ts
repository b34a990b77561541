// The log phase: the client has its answer, and what the request leaves is released, charged or refunded.

export { endRequest as log } from "./request/request-state.ts";
