// A model of ASP.NET, which Debian has no package of: no part of it runs here. Its rules are those of its documentation and source:
//
// - ASP.NET Core (FormPipeReader, QueryFeature, KeyValueAccumulator): splits at "&" and "=", "+" is a blank, broken percent-encodings stay,
//   names are compared without regard to case.
// - ASP.NET (HttpValueCollection, HttpUtility.UrlDecode): the same, and %uXXXX is a character; Request["name"] asks the query, the form, the
//   cookies in turn.
// - Both compare names of cookies without regard to case. ASP.NET splits cookies at ";", and takes quotes for a part of a name.
// - ASP.NET Core (CookieHeaderParserShared) splits cookies at "," and ";", skips what it cannot read character by character, and decodes values
//   (Uri.UnescapeDataString). The last cookie of a name counts.

import { bytesOf, type Readings, type Servers, type SpelledRequest } from "./server.ts";

export class AspNetModel implements Servers {
  async ask(requests: readonly SpelledRequest[]): Promise<Record<string, Readings>[]> {
    return requests.map((request) => ({
      "ASP.NET Core (model)": readings(request, unescaped, cookiesOfCore(request)),
      "ASP.NET (model)": readings(request, (text) => unescaped(withoutUnicodeEscapes(text)), cookiesOf(request)),
    }));
  }

  async stop(): Promise<void> {}
}

function readings(
  { name, query, body, type }: SpelledRequest,
  decode: (text: string) => string,
  cookie: readonly string[],
): Readings {
  const isForm = /^\s*application\/x-www-form-urlencoded\s*(;|$)/i.test(type);
  const argument = (part: string) => decode(part.replaceAll("+", " "));
  const among = (text: string) => pairsOf(text, "&", name, argument, argument);
  const fields = isForm ? among(body) : [];
  return { query: among(query), form: fields, merged: [...among(query), ...fields], cookie };
}

function cookiesOf({ name, cookie }: SpelledRequest): string[] {
  const trimmed = (text: string) => text.trim();
  return pairsOf(cookie, ";", name, trimmed, (text) => text.trim().replace(/^"(.*)"$/, "$1"));
}

function cookiesOfCore({ name, cookie }: SpelledRequest): string[] {
  const pair = /([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=("[!#-+\--:<-[\]-~]*"|[!#-+\--:<-[\]-~]*)(?=[ \t]*([,;]|$))/y;
  const read: string[] = [];
  for (let at = 0; at < cookie.length; ) {
    pair.lastIndex = at;
    const [found, written = "", value = ""] = pair.exec(cookie) ?? [];
    if (value !== "" && written.toUpperCase() === name.toUpperCase()) read.push(unescaped(value.replaceAll('"', "")));
    at += found?.length || 1;
  }
  return read.slice(-1);
}

function pairsOf(
  text: string,
  separator: string,
  name: string,
  readName: (part: string) => string,
  readValue: (part: string) => string,
): string[] {
  return text.split(separator).flatMap((pair) => {
    const equals = pair.indexOf("=");
    if (equals < 0 || readName(pair.slice(0, equals)).toUpperCase() !== name.toUpperCase()) return [];
    return [readValue(pair.slice(equals + 1))];
  });
}

function unescaped(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

function withoutUnicodeEscapes(text: string): string {
  return text.replace(/%u([0-9a-f]{4})/gi, (_, digits: string) =>
    bytesOf(String.fromCharCode(Number.parseInt(digits, 16))),
  );
}
