// Lets a service's own rate limit headers through where Sluice sets none. nginx hides them all (proxy_hide_header), because it
// does so before any Lua can say which it should.

const { header } = ngx;

const names = ["RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];
const hidden = [
  "upstream_http_ratelimit_policy",
  "upstream_http_ratelimit",
  "upstream_http_x_ratelimit_limit",
  "upstream_http_x_ratelimit_remaining",
  "upstream_http_x_ratelimit_reset",
];

/** For header_filter_by_lua. Whatever SLUICE_HEADERS says, a decision that clients see has one of the two headers asked for here. */
export function headers(this: void): void {
  if (header["RateLimit"] !== undefined || header["X-RateLimit-Limit"] !== undefined) return;
  for (let i = 0; i < names.length; i++) {
    const theirs = ngx.var[hidden[i] as string];
    if (theirs !== undefined) header[names[i] as string] = theirs;
  }
}
