// Lets a service's own rate limit headers through where Sluice sets none. nginx hides them all (proxy_hide_header), because it
// does so before any Lua can say which it should.

const { header } = ngx;

/** For header_filter_by_lua. Whatever SLUICE_HEADERS says, a decision that clients see has one of the two headers asked for here. */
export function headers(this: void): void {
  if (header["RateLimit"] !== undefined || header["X-RateLimit-Limit"] !== undefined) return;
  // No loop: LuaJIT compiles no function that contains one before the loop ends, and the calls into nginx cost twice as much uncompiled.
  letThrough("RateLimit-Policy", "upstream_http_ratelimit_policy");
  letThrough("RateLimit", "upstream_http_ratelimit");
  letThrough("X-RateLimit-Limit", "upstream_http_x_ratelimit_limit");
  letThrough("X-RateLimit-Remaining", "upstream_http_x_ratelimit_remaining");
  letThrough("X-RateLimit-Reset", "upstream_http_x_ratelimit_reset");
}

function letThrough(name: string, hidden: string): void {
  const theirs = ngx.var[hidden];
  if (theirs !== undefined) header[name] = theirs;
}
