// Finds out whether a text needs decoding, without a loop in Lua.

/** Returns whether there is nothing but letters, digits, "-", ".", "_" and "~": nothing else is left as it is by nginx's encoder. */
export function isPlain(this: void, text: string): boolean {
  return ngx.escape_uri(text) === text;
}
