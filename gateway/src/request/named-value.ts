// The value of a name in a list as clients write them: arguments of a query, cookies. The first of that name, and names
// are told apart by case: nginx's own $arg_… and $cookie_… take `API_KEY=x` for `api_key`, so that whoever puts one in
// front would pick his counter anew with each request.

/** @param query without the "?". Both name and value are compared and returned decoded, as an upstream reads them. */
export function queryValue(query: string, name: string): string | undefined {
  let start = 0;
  while (start < query.length) {
    const end = endOf(query, "&", start);
    const equals = endOf(query, "=", start);
    if (decoded(query.slice(start, Math.min(equals, end))) === name) {
      return equals < end ? decoded(query.slice(equals + 1, end)) : "";
    }
    start = end + 1;
  }
  return undefined;
}

/** @param cookies as nginx's $http_cookie has all lines of them */
export function cookieValue(cookies: string, name: string): string | undefined {
  let start = 0;
  while (start < cookies.length) {
    const end = endOf(cookies, ";", start);
    while (cookies.charAt(start) === " ") start += 1;
    const equals = endOf(cookies, "=", start);
    if (equals < end && cookies.slice(start, equals) === name) return cookies.slice(equals + 1, end);
    start = end + 1;
  }
  return undefined;
}

function endOf(text: string, separator: string, start: number): number {
  const at = text.indexOf(separator, start);
  return at < 0 ? text.length : at;
}

function decoded(text: string): string {
  return text.includes("%") || text.includes("+") ? ngx.unescape_uri(text) : text;
}
