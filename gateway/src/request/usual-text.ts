// Decodes what most clients write, without a loop in Lua.

/** Returns the text, if it is printable ASCII and encoded as nginx's own encoder does it: all servers read that alike. Otherwise undefined. */
export function readUsual(this: void, written: string): string | undefined {
  if (ngx.escape_uri(written) === written) return written;
  const text = ngx.unescape_uri(written);
  return ngx.escape_uri(text) === written && string.find(text, "[^ -~]")[0] === undefined ? text : undefined;
}
