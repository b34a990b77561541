// Models of what finds a field of a form under other names, or ends it elsewhere, by their sources: none of them runs here.
//
// - Netty (HttpPostStandardRequestDecoder, AbstractHttpData), with which Vert.x and Micronaut read: a line end in a value ends the body; blanks
//   around a name and each line end in it are dropped.
// - Ktor (Query.kt): names and values are trimmed before they are decoded.
// - Play (FormUrlEncodedParser): a value ends at "=".
// - Spring WebFlux (FormHttpMessageReader): pairs are trimmed; Java's URLDecoder reads digits of any script.
// - Spring MVC's @ModelAttribute (WebDataBinder, ExtendedServletRequestDataBinder): "!name" is the default of a name, and a header the next one.
// - ASP.NET Core (ParameterBinder, JQueryKeyValuePairNormalizer): names begin with the parameter's name if any name does; "a[b]" is "a.b".
//
// All but the last read the first one of a name.

import type { IncomingHttpHeaders } from "node:http";

type Pair = readonly [name: string, value: string];
type Read = (body: string, name: string, headers: IncomingHttpHeaders) => string | undefined;

/** How each service finds a name in a body. */
export const formModels: Readonly<Record<string, Read>> = {
  "Netty (model)": (body, name) => {
    const lineEnd = /=[^&]*?(\n)/.exec(body);
    const read = lineEnd === null ? body : body.slice(0, lineEnd.index + lineEnd[0].length - 1);
    return firstOf(
      pairsOf(read).map(([each, value]) => [
        decoded(each)
          .replace(/[\r\t]/g, " ")
          .replace(/^\s+|\s+$|\n/g, ""),
        value,
      ]),
      name,
    );
  },
  "Ktor (model)": (body, name) =>
    firstOf(
      pairsOf(body).map(([each, value]) => [decoded(each.trim()), value.trim()]),
      name,
    ),
  "Play (model)": (body, name) =>
    firstOf(
      pairsOf(body).map(([each, value]) => [decoded(each), value.split("=")[0] ?? ""]),
      name,
    ),
  "Spring WebFlux (model)": (body, name) => {
    const digit = (char: string) => String.fromCharCode(char.charCodeAt(0) - 0xff10 + 48);
    const pairs = body.split("&").map((pair) => pair.trim());
    return firstOf(
      pairsOf(pairs.join("&").replace(/[\uff10-\uff19]/g, digit)).map(([each, value]) => [decoded(each), value]),
      name,
    );
  },
  "Spring MVC's @ModelAttribute (model)": (body, name, headers) => {
    const pairs = pairsOf(body).map(([each, value]): Pair => [decoded(each), value]);
    return firstOf(pairs, name) ?? firstOf(pairs, `!${name}`) ?? headers[name]?.toString();
  },
  "ASP.NET Core's Login(Model model) (model)": (body, name) => {
    const pairs = pairsOf(body).map(
      ([each, value]): Pair => [
        decoded(each)
          .replace(/\[(\D[^\]]*)\]/g, ".$1")
          .toLowerCase(),
        value,
      ],
    );
    const hasPrefix = pairs.some(([each]) => each === "model" || each.startsWith("model."));
    return firstOf(pairs, hasPrefix ? `model.${name.toLowerCase()}` : name.toLowerCase());
  },
};

function pairsOf(body: string): Pair[] {
  return body.split("&").map((pair) => {
    const equals = pair.indexOf("=");
    return equals < 0 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
  });
}

function firstOf(pairs: readonly Pair[], name: string): string | undefined {
  const value = pairs.find(([each]) => each === name)?.[1];
  return value === undefined ? undefined : decoded(value);
}

function decoded(text: string): string {
  const blanks = text.replaceAll("+", " ");
  return blanks.replace(/%([0-9a-f]{2})/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}
