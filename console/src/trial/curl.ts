// A request as a command that one can paste into a shell.

import type { MadeUpRequest } from "./request.ts";

/** @param gateway where it is sent to, like "http://127.0.0.1:8080" */
export function curlOf({ method, host, target, headers, body = "" }: MadeUpRequest, gateway: string): string {
  // Without -g, curl sends a request for each of x[1-9].
  const words = ["curl", "-g", "-i"];
  if (method === "HEAD") words.push("-I");
  else if (method !== "GET") words.push("-X", quoted(method));
  // Without the slash, "@other.example/" would make the gateway the name of a user at another host.
  const path = (target.startsWith("/") ? target : `/${target}`).replaceAll(" ", "%20");
  words.push("--path-as-is", quoted(gateway.replace(/\/+$/, "") + path));
  if (host !== "") words.push("-H", quoted(`host: ${host}`));
  for (const { name, value } of headers) words.push("-H", quoted(value === "" ? `${name};` : `${name}: ${value}`));
  if (body !== "") words.push("--data-raw", quoted(body));
  return words.join(" ");
}

/** Within single quotes, a shell takes everything as it stands. */
function quoted(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
