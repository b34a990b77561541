// All errors that the control plane answers with. Clients decide by the code, so a released code keeps its meaning.
// docs/errors.md lists the same errors; a test compares the two.

export interface ErrorEntry {
  readonly status: number;
  readonly title: string;
  readonly meaning: string;
}

export const errorCatalogue = {
  "invalid-policy": {
    status: 400,
    title: "Invalid policy",
    meaning:
      "The document is not a policy, or reaches outside of its app's realm, or says what your token may not. `errors` lists everything wrong with it; nothing was stored.",
  },
  "invalid-template": {
    status: 400,
    title: "Invalid template",
    meaning:
      "The document is not a template, its app or your token may not have what it says, or a policy that uses it could not have it. Nothing was stored.",
  },
  "invalid-request": {
    status: 400,
    title: "Invalid request",
    meaning: "A query parameter, path segment or body field is not what is expected. `errors` lists each.",
  },
  "malformed-body": {
    status: 400,
    title: "Malformed body",
    meaning:
      "The body is not the JSON or YAML that its Content-Type says, is not UTF-8, repeats a key, or nests too deeply.",
  },
  "bad-request": {
    status: 400,
    title: "Bad request",
    meaning: "The request is not well-formed HTTP, or its URL cannot be decoded.",
  },
  unauthorized: {
    status: 401,
    title: "Unauthorized",
    meaning: "No token came, or one that is unknown or expired. Send `Authorization: Bearer TOKEN`.",
  },
  forbidden: {
    status: 403,
    title: "Forbidden",
    meaning:
      "The token is good, but its role or its app may not do this. Gateway tokens are for the push socket, caller tokens for the check API of gateways.",
  },
  "not-found": { status: 404, title: "Not found", meaning: "There is nothing at this URL." },
  "app-not-found": { status: 404, title: "App not found", meaning: "There is no app of this name." },
  "policy-not-found": { status: 404, title: "Policy not found", meaning: "The app has no policy of this name." },
  "template-not-found": { status: 404, title: "Template not found", meaning: "The app has no template of this name." },
  "ban-not-found": { status: 404, title: "Ban not found", meaning: "The app has no ban of this id, or it is over." },
  "token-not-found": {
    status: 404,
    title: "Token not found",
    meaning: "There is no token of this id, or it is of another app than yours.",
  },
  "method-not-allowed": {
    status: 405,
    title: "Method not allowed",
    meaning: "The URL exists, but not for this method. `Allow` lists those it has.",
  },
  "request-timeout": {
    status: 408,
    title: "Request timeout",
    meaning: "The request did not arrive whole in time.",
  },
  "app-not-empty": {
    status: 409,
    title: "App not empty",
    meaning: "The app still has policies or templates; delete them first.",
  },
  "app-protected": {
    status: 409,
    title: "App protected",
    meaning: "The app `default` always exists, cannot be deleted, and has every host and path: it takes no realm.",
  },
  "outside-realm": {
    status: 409,
    title: "Policies outside of the realm",
    meaning:
      "Policies of the app reach outside of the realm that was to be set: `policies` names them, `errors` their fields. Nothing was changed.",
  },
  "template-in-use": {
    status: 409,
    title: "Template in use",
    meaning: "Policies use the template: `policies` names them.",
  },
  "too-many-bans": {
    status: 409,
    title: "Too many bans",
    meaning: "The app has as many bans in force as its bounds allow: 10,000, unless an admin set another number.",
  },
  "bound-exceeded": {
    status: 409,
    title: "Bound exceeded",
    meaning:
      "There would be more than the bounds of the document, the app or all apps together allow. `bounds` says of what, how much is used, allowed and wanted. Nothing was stored; what makes less is always accepted.",
  },
  "precondition-failed": {
    status: 412,
    title: "Precondition failed",
    meaning: "If-Match or If-None-Match does not hold. `ETag` and `etag` tell the current version, if there is one.",
  },
  "body-too-large": { status: 413, title: "Body too large", meaning: "The body is larger than 256 KiB." },
  "unsupported-media-type": {
    status: 415,
    title: "Unsupported media type",
    meaning: "The Content-Type is absent or none that this URL reads. Policies are read as JSON or YAML.",
  },
  "upgrade-required": {
    status: 426,
    title: "Upgrade required",
    meaning: "This URL is a WebSocket for gateways; the request did not ask for the upgrade.",
  },
  "headers-too-large": {
    status: 431,
    title: "Headers too large",
    meaning: "The request's headers are larger than the server takes.",
  },
  internal: {
    status: 500,
    title: "Internal error",
    meaning: "The control plane failed. `requestId` finds the cause in its log.",
  },
  "yaml-busy": {
    status: 503,
    title: "YAML busy",
    meaning: "Too many YAML bodies wait to be read. Try again after `Retry-After`, or send JSON.",
  },
  "redis-unavailable": {
    status: 503,
    title: "Redis unavailable",
    meaning:
      "The counter is in Redis, which does not do what it is asked (`detail` says why), or SLUICE_REDIS_URL is not set.",
  },
  "not-ready": { status: 503, title: "Not ready", meaning: "The database does not answer." },
  "database-busy": {
    status: 503,
    title: "Database busy",
    meaning:
      "Another process holds the database's lock, and did not let go in time. Nothing was changed; try again after `Retry-After`.",
  },
  "storage-unwritable": {
    status: 503,
    title: "Storage unwritable",
    meaning: "The database cannot be written to; the log says why. Nothing was changed; what is stored is served on.",
  },
  "storage-full": {
    status: 507,
    title: "Storage full",
    meaning: "The disk of the database is full. Nothing was changed; what is stored is served on.",
  },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorCatalogue;
