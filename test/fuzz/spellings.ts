// Makes pairs of spellings that nginx itself reads as one: of a path, an argument, a host, a header's name. Whatever a client
// writes, it must be counted by the counter of the plain spelling.

import fc from "fast-check";

export interface Spelling {
  readonly plain: string;
  readonly odd: string;
}

export type Spelled = "path" | "query" | "host" | "header";

interface Choice {
  readonly of: Spelled;
  readonly word: string;
  /** Which characters are escaped, and what is inserted between segments. */
  readonly escapes: readonly number[];
  readonly lowerCase: boolean;
  readonly inserted: readonly { readonly at: number; readonly what: string }[];
  readonly after: string;
  readonly absolute: boolean;
}

const choices: fc.Arbitrary<Choice> = fc.record({
  of: fc.constantFrom("path", "path", "query", "host", "header"),
  word: fc.constantFrom("books", "a.b", "a-b_c~d", "0", "A", "aa/bb/cc", "a/b.c/d"),
  escapes: fc.array(fc.nat(40), { maxLength: 6 }),
  lowerCase: fc.boolean(),
  inserted: fc.array(
    fc.record({
      at: fc.nat(6),
      what: fc.constantFrom("/", "/.", "/%2e", "/x/..", "/x/%2E%2e", "/x/y/../..", "//", "/%2F", "/%78/.."),
    }),
    { maxLength: 4 },
  ),
  after: fc.constantFrom("", "?a=1", "?", "?/../x"),
  absolute: fc.boolean(),
});

/** @param unique a part for each pair, so that no other request uses its counter */
export function spellings(): fc.Arbitrary<(unique: string) => Spelling> {
  return choices.map((choice) => (unique: string) => spelled(choice, unique));
}

function spelled({ of, word, escapes, lowerCase, inserted, after, absolute }: Choice, unique: string): Spelling {
  const escaped = (text: string) =>
    escapes.reduce((before, at) => escapedAt(before, at, lowerCase), [...text]).join("");
  switch (of) {
    case "path": {
      const segments = ["one", unique, ...word.split("/")];
      const odd = segments.map(escaped).map((segment, i) => {
        const before = inserted.filter(({ at }) => at % segments.length === i).map(({ what }) => what);
        return `${before.join("")}/${segment}`;
      });
      const path = `${odd.join("")}${after}`;
      // A target that begins with two slashes is a path too.
      return pair(`/one/${unique}/${word}`, absolute ? `http://x${path}` : path);
    }
    case "query": {
      const value = `${unique}${word.replaceAll("/", "")}`;
      const others = inserted.map((_, i) => `z${i}=${i}&`).join("");
      return pair(
        `/asked?user=${value}`,
        `/asked?${others}${escaped("user")}=${escaped(value)}${absolute ? "&y" : ""}`,
      );
    }
    case "host": {
      const host = `${unique}.hosts.example`;
      const odd = escapes.reduce((text, at) => capitalAt(text, at), host);
      return pair("/host", "/host", [`Host: ${host}`], [`Host: ${odd}${absolute ? ":8080" : ""}`]);
    }
    case "header": {
      const odd = escapes.reduce((text, at) => capitalAt(text, at), "x-user");
      const spaces = " ".repeat(inserted.length);
      return pair("/header-one", "/header-one", [`X-User: ${unique}`], [`${odd}:${spaces}${unique}${spaces}`]);
    }
  }
}

function pair(
  plain: string,
  odd: string,
  plainLines: readonly string[] = [],
  oddLines: readonly string[] = [],
): Spelling {
  return { plain: requestOf(plain, plainLines), odd: requestOf(odd, oddLines) };
}

function requestOf(target: string, lines: readonly string[]): string {
  const host = lines.some((line) => line.toLowerCase().startsWith("host:")) ? [] : ["Host: x"];
  return [`GET ${target} HTTP/1.1`, ...host, ...lines, "Connection: close", "", ""].join("\r\n");
}

function escapedAt(characters: readonly string[], at: number, lowerCase: boolean): string[] {
  return characters.map((character, i) => {
    if (i !== at % characters.length || character.length > 1) return character;
    const digits = character.charCodeAt(0).toString(16);
    return `%${lowerCase ? digits : digits.toUpperCase()}`;
  });
}

function capitalAt(text: string, at: number): string {
  const place = at % text.length;
  return text.slice(0, place) + text.charAt(place).toUpperCase() + text.slice(place + 1);
}
