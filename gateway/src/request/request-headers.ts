// The request's headers, by nginx's variables for them: reading one does not parse all.

/** nginx's variables, by header name: names come from policies, so there are only so many. */
const variables: Record<string, string> = {};

/** @param name in lower case */
export function readHeader(this: void, name: string): string | undefined {
  let variable = variables[name];
  if (variable === undefined) {
    variable = `http_${string.gsub(name, "%-", "_")[0]}`;
    variables[name] = variable;
  }
  return ngx.var[variable];
}
