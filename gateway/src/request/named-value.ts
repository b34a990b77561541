// The value of a name in a list as clients write them: arguments of a query, cookies. The first of that name, and names
// are told apart by case: nginx's own $arg_… and $cookie_… take `API_KEY=x` for `api_key`, so that whoever puts one in
// front would pick his counter anew with each request.

/** @param query without the "?". Both name and value are compared and returned decoded, as an upstream reads them. */
export function queryValue(query: string, name: string): string | undefined {
  // The first by itself: a loop that mostly turns once ends LuaJIT's trace of all that leads there.
  const end = endOf(query, "&", 0);
  const first = argumentValue(query, 0, end, name);
  return first !== undefined || end >= query.length ? first : laterValue(query, end + 1, name);
}

function laterValue(query: string, from: number, name: string): string | undefined {
  let start = from;
  while (start < query.length) {
    const end = endOf(query, "&", start);
    const value = argumentValue(query, start, end, name);
    if (value !== undefined) return value;
    start = end + 1;
  }
  return undefined;
}

/** @returns undefined where another name stands there */
function argumentValue(query: string, start: number, end: number, name: string): string | undefined {
  const equals = Math.min(endOf(query, "=", start), end);
  if (start === end || decoded(query.slice(start, equals)) !== name) return undefined;
  return decoded(query.slice(equals + 1, end));
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
