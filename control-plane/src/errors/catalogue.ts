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
      "The document is no valid policy, it reaches outside of its app's realm, or your token does not allow what it says. `errors` lists all errors; of many policies, each with its line. Nothing was stored.",
  },
  "invalid-template": {
    status: 400,
    title: "Invalid template",
    meaning:
      "The document is no valid template, or a policy that uses it would be invalid: by itself, for its app's realm or for your token. `errors` lists all errors. Nothing was stored.",
  },
  "invalid-request": {
    status: 400,
    title: "Invalid request",
    meaning: "A query parameter, a path segment or a field of the body is invalid. `errors` lists each.",
  },
  "malformed-body": {
    status: 400,
    title: "Malformed body",
    meaning:
      "The body is not the JSON or YAML that its Content-Type announces, is not UTF-8, has a key twice, or is nested too deeply.",
  },
  "bad-request": {
    status: 400,
    title: "Bad request",
    meaning:
      "The request is not well-formed HTTP, or its URL cannot be decoded, is too long, has too many parameters, or has a character that no name has.",
  },
  unauthorized: {
    status: 401,
    title: "Unauthorized",
    meaning:
      "The request has no token, or its token is unknown or expired, or its session has ended. Send `Authorization: Bearer TOKEN`, or sign in again.",
  },
  "sign-in-failed": {
    status: 401,
    title: "Sign-in failed",
    meaning:
      "The sign-in by OpenID Connect was not completed: the provider refused, it took too long, or what came back is not the answer to a sign-in that this browser began. Begin again.",
  },
  forbidden: {
    status: 403,
    title: "Forbidden",
    meaning:
      "The token is valid, but its role or its app does not allow this. Gateway tokens are only for the push socket, and caller tokens only for the check API of gateways.",
  },
  "cross-site-request": {
    status: 403,
    title: "Cross-site request",
    meaning:
      "A request with a session's cookie that changes something needs `X-CSRF-Token`, and must come from a page of the control plane. One that reads may have `X-CSRF-Token`, but not that of another session. `detail` names the header.",
  },
  "sign-in-refused": {
    status: 403,
    title: "Sign-in refused",
    meaning:
      "The OpenID provider knows the person, who may not sign in: none of their groups gives rights here, the member is disabled, or another member has the name.",
  },
  "not-found": { status: 404, title: "Not found", meaning: "There is nothing at this URL." },
  "openid-not-configured": {
    status: 404,
    title: "OpenID Connect not configured",
    meaning: "SLUICE_OIDC_ISSUER is not set: sign in by a token.",
  },
  "app-not-found": { status: 404, title: "App not found", meaning: "There is no app of this name." },
  "policy-not-found": { status: 404, title: "Policy not found", meaning: "The app has no policy of this name." },
  "template-not-found": {
    status: 404,
    title: "Template not found",
    meaning: "The app, or the library, has no template of this name.",
  },
  "networks-not-found": {
    status: 404,
    title: "List of networks not found",
    meaning: "The app has no list of networks of this name.",
  },
  "invalid-networks": {
    status: 400,
    title: "Invalid networks",
    meaning: "Lines of the body are no networks. `errors` has each with its line. Nothing was stored.",
  },
  "ban-not-found": {
    status: 404,
    title: "Ban not found",
    meaning: "The app has no ban with this id, or the ban has ended.",
  },
  "consumer-not-found": {
    status: 404,
    title: "Consumer not found",
    meaning: "The app has no consumer with this id: its requests have the default plan of each policy.",
  },
  "invalid-consumers": {
    status: 400,
    title: "Invalid consumers",
    meaning: "Lines of the body are no valid consumers. `errors` has each with its line. Nothing was stored.",
  },
  "member-not-found": {
    status: 404,
    title: "Member not found",
    meaning: "There is no such member, or none in the apps that you own.",
  },
  "member-exists": {
    status: 409,
    title: "Member exists",
    meaning:
      "There is already a member with this name: change the member by PATCH. Or the history names the admins' first tokens so.",
  },
  "too-many-members": {
    status: 409,
    title: "Too many members",
    meaning:
      "The owners of the app have added as many members as they may. Ask an admin to add more, or to delete some.",
  },
  "too-many-tokens": {
    status: 409,
    title: "Too many tokens",
    meaning: "The member has as many tokens as a member may have. Delete one first.",
  },
  "revision-not-found": {
    status: 404,
    title: "Revision not found",
    meaning: "There is no such revision, it is not kept any more, or it is not of an app that you may read.",
  },
  "token-not-found": {
    status: 404,
    title: "Token not found",
    meaning: "There is no token with this id, or it belongs to an app that your token is not for.",
  },
  "method-not-allowed": {
    status: 405,
    title: "Method not allowed",
    meaning: "The URL exists, but not for this method. `Allow` lists its methods.",
  },
  "request-timeout": {
    status: 408,
    title: "Request timeout",
    meaning: "The whole request did not arrive in time.",
  },
  "app-not-empty": {
    status: 409,
    title: "App not empty",
    meaning: "The app still has policies, templates or lists of networks. Delete them first.",
  },
  "app-protected": {
    status: 409,
    title: "App protected",
    meaning: "The app `default` cannot be deleted and has no realm: it has every host and path.",
  },
  "outside-realm": {
    status: 409,
    title: "Policies outside of the realm",
    meaning:
      "Policies of the app reach outside of the new realm. `policies` names them, and `errors` names their fields. Nothing was changed.",
  },
  "template-in-use": {
    status: 409,
    title: "Template in use",
    meaning: "Policies use the template. `policies` names them.",
  },
  "networks-in-use": {
    status: 409,
    title: "List of networks in use",
    meaning:
      "Policies, exemptions of apps or bans refer to the list. `detail` names some, and `policies` the policies.",
  },
  "too-many-bans": {
    status: 409,
    title: "Too many bans",
    meaning: "The app has as many bans in force as its bounds allow: 10,000, or what an admin has set.",
  },
  "bound-exceeded": {
    status: 409,
    title: "Bound exceeded",
    meaning:
      "The change would exceed the bounds of the document, of the app or of all apps together. `bounds` says which bound, how much is used, how much is allowed and how much the change needs. Nothing was stored. A change that needs less than before is always accepted.",
  },
  "app-changing": {
    status: 409,
    title: "App changing",
    meaning:
      "The app's realm or its templates changed twice while many policies were validated with them, or the app changed three times while its roll-back was prepared. Nothing was stored. Try again after `Retry-After`.",
  },
  "import-under-way": {
    status: 409,
    title: "Import under way",
    meaning:
      "Another import of the app's consumers is under way, or has begun because this one did not get on. Try again after `Retry-After`.",
  },
  "precondition-failed": {
    status: 412,
    title: "Precondition failed",
    meaning:
      "The condition of If-Match or If-None-Match is false. `ETag` and `etag` have the current version, if there is one.",
  },
  "body-too-large": {
    status: 413,
    title: "Body too large",
    meaning: "The body is larger than 256 KiB, or than 64 MiB if it has many policies.",
  },
  "unsupported-media-type": {
    status: 415,
    title: "Unsupported media type",
    meaning:
      "The body has no Content-Type, or another one than JSON or YAML; for many policies, than JSON lines or YAML.",
  },
  "upgrade-required": {
    status: 426,
    title: "Upgrade required",
    meaning: "This URL is a WebSocket for gateways, and the request did not ask for the upgrade.",
  },
  "too-many-requests": {
    status: 429,
    title: "Too many requests",
    meaning:
      "The token, or the address that the request comes from, has sent more requests than the settings of the control plane allow. Nothing was changed. Try again after `Retry-After`.",
  },
  "too-many-failed-sign-ins": {
    status: 429,
    title: "Too many failed sign-ins",
    meaning:
      "Too many requests from this address had a wrong token, so tokens that this control plane has not seen before are not looked up now. Try again after `Retry-After`.",
  },
  "too-many-streams": {
    status: 429,
    title: "Too many streams",
    meaning:
      "This member or token follows 20 streams of events already, or 200 are in use and no app has many more of them than this one. `Retry-After` says when to try again.",
  },
  "headers-too-large": {
    status: 431,
    title: "Headers too large",
    meaning: "The headers of the request are larger than the server accepts.",
  },
  internal: {
    status: 500,
    title: "Internal error",
    meaning: "The control plane failed. Search its log for `requestId` to find the cause.",
  },
  "yaml-busy": {
    status: 503,
    title: "YAML busy",
    meaning: "Too many YAML bodies wait to be read. Try again after `Retry-After`, or send JSON.",
  },
  "bodies-busy": {
    status: 503,
    title: "Bodies busy",
    meaning:
      "Other bodies are being read, and take the memory that there is for them, or this one had the most of it and gave way. Try again after `Retry-After`, or send less at once.",
  },
  "reads-busy": {
    status: 503,
    title: "Reads busy",
    meaning:
      "Too many diffs, roll-backs and dry runs go on, or yours had the most of them and this one gave way. Nothing was changed, unless the detail says that a roll-back is stored. Try again after `Retry-After`.",
  },
  "redis-unavailable": {
    status: 503,
    title: "Redis unavailable",
    meaning: "The counter is in Redis, and Redis failed (`detail` says why) or SLUICE_REDIS_URL is not set.",
  },
  "sign-in-unavailable": {
    status: 503,
    title: "Sign-in unavailable",
    meaning:
      "The OpenID provider does not answer, or not as one. Try again after `Retry-After`, or sign in by a token. The log says why.",
  },
  "not-ready": {
    status: 503,
    title: "Not ready",
    meaning:
      "The control plane cannot do its work now: the database does not answer or has an older schema, stored changes cannot be read, or the control plane is stopping. `detail` says which.",
  },
  "database-busy": {
    status: 503,
    title: "Database busy",
    meaning:
      "Another process held the database's lock for too long. Nothing was changed, but for what `stored` says of an import. Try again after `Retry-After`.",
  },
  "database-unreachable": {
    status: 503,
    title: "Database unreachable",
    meaning:
      "The server of the database does not answer. Stored policies stay in force. Nothing was changed, unless the detail says that a change may be stored, or `stored` what an import has stored. Try again after `Retry-After`.",
  },
  "storage-unwritable": {
    status: 503,
    title: "Storage unwritable",
    meaning:
      "The control plane cannot write to the database; its log says why. Nothing was changed, but for what `stored` says of an import, and stored policies stay in force.",
  },
  "storage-full": {
    status: 507,
    title: "Storage full",
    meaning:
      "The disk of the database is full. Nothing was changed, but for what `stored` says of an import, and stored policies stay in force.",
  },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorCatalogue;
