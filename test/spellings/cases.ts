// Makes requests that are aimed at where servers differ: each has a decoy and a victim under the name that is counted, or under names
// that come close to it. The same seed makes the same requests.

import { Random } from "../deltas/random.ts";
import type { SpelledRequest } from "./server.ts";

export const kinds = ["query", "form", "cookie"] as const;
export type Kind = (typeof kinds)[number];

export interface Case {
  readonly kind: Kind;
  readonly request: SpelledRequest;
}

const others = [
  "f",
  "other",
  "accounts",
  "user",
  "",
  "user[password]",
  "id",
  "user[name]",
  "_charset_",
  "utf8",
  "n".repeat(9_000),
];
const form = "application/x-www-form-urlencoded";
const names = [
  "account",
  "account",
  "account",
  "user_name",
  "user.name",
  "user[email]",
  "_id",
  "ids[]",
  "a b",
  "Sid2",
  "x",
];
const cookieNames = ["sid", "sid", "sid", "user_id", "a.b", "__Host-sid", "PHPSESSID"];

/** What is put before, behind or into a name. */
const scraps = [
  ..." \t\n\r\0\u000b\u001f\u007f+.[]_?&=;,:'\"\\/%#$*()-!@^|~<>{}",
  ...[
    "%00",
    "%20",
    "%09",
    "%0a",
    "%0d",
    "%0b",
    "%5b",
    "%5d",
    "%5B",
    "%5D",
    "%2e",
    "%2E",
    "%5f",
    "%3f",
    "%26",
    "%3d",
    "%3b",
    "%2b",
    "%25",
    "%2500",
  ],
  ...[
    "[]",
    "[0]",
    "[1]",
    "[a]",
    "[ ]",
    "[[",
    "]]",
    "[][]",
    "[$ne]",
    "[__proto__]",
    "[length]",
    "%",
    "%4",
    "%zz",
    "%u0061",
    "%u0000",
    "%c0%80",
  ],
  ...[
    "\xef\xbb\xbf",
    "%ef%bb%bf",
    "%c2%a0",
    "\xc2\xa0",
    "\xa0",
    "%a0",
    "\x85",
    "%c2%85",
    "%e2%80%8b",
    "%c2%ad",
    "\xff",
    "%ff",
    "%c1%a1",
    "%e3%80%80",
  ],
  ...["__proto__", "constructor", "amp;", "&amp;", "x", "0", "A", "_charset_", "utf8", "__Host-", "$"],
];
/** What some servers leave out around a value. */
const blanks = [
  "",
  "+",
  " ",
  "++",
  "%20",
  "%09",
  "%0d%0a",
  "%0b",
  "%1c",
  "%00",
  "%c2%85",
  "%c2%a0",
  "%e3%80%80",
  "%e2%80%8b",
  "%ef%bb%bf",
];
const separators = [
  "&",
  "&",
  "&",
  "&",
  "&",
  "&&",
  ";",
  "& ",
  "; ",
  "&+",
  "&%20",
  "&\t",
  "&\n",
  "&amp;",
  "\n",
  ",",
  "%26",
  "&\0",
  "&?",
  "&;",
  ";&",
  "&=",
  "&=&",
];
const beginnings = [
  "",
  "",
  "",
  "",
  "",
  "",
  "?",
  "??",
  "\xef\xbb\xbf",
  "%ef%bb%bf",
  "&",
  " ",
  "+",
  "\0",
  "#",
  "%3f",
  "=",
  ";",
  "\n",
];
const endings = ["", "", "", "", "", "", "&", ";", " ", "\0", "\r\n", "%", "=", "#x", "\x1a"];
const cookieSeparators = ["; ", "; ", "; ", ";", ";;", ",", ", ", ";\t", "; ; ", " ;", "&", ";\x0b", ";\xa0", " "];
const cookieBeginnings = ["", "", "", "", "$Version=1; ", ";", " ", "\t", ",", '"', 'a="', "=", "$Path=/; "];
const types = [
  ...Array<string>(30).fill(form),
  ...[
    "",
    form.toUpperCase(),
    `${form};charset=utf-8`,
    `${form}; charset=UTF-8`,
    `${form}; charset="utf-8"`,
    `${form}; charset=utf8`,
  ],
  ...[
    `${form}; charset=iso-8859-1`,
    `${form}; charset=windows-1252`,
    `${form}; charset=us-ascii`,
    `${form};`,
    `${form} ; x=y`,
    ` ${form}`,
  ],
  ...[
    `${form}; charset=utf-7`,
    `${form}; charset=utf-16`,
    `${form}, text/plain`,
    `${form}; boundary=x`,
    `${form}; charset=`,
    `${form}\t`,
  ],
  ...[
    `${form}; a=/json`,
    `${form}; +json`,
    `${form}; charset=utf-8; a="json"`,
    `${form}; a=multipart; boundary=b`,
    `${form}; charset=utf-8; a=multipart/form-data; boundary=b`,
    `${form}; charset="utf-8;/json"`,
    `${form}; charset=utf-8; charset=utf-8`,
  ],
  ...[`${form}+json`, "text/plain", "application/json"],
];
/** What no server may take for anything but a form, or for none. */
const typesOfForms = types.filter((type) => type === "" || type.toLowerCase().includes("urlencoded"));
/** What readers of JSON leave out before it. */
const beforeJson = ["", "", "", "", " ", "\r\n\t", "\xef\xbb\xbf", "\xef\xbb\xbf ", "\xff\xfe", "\x0b", "\xc2\xa0"];

export function casesOf(seed: number, count: number): Case[] {
  const random = new Random(seed);
  return Array.from({ length: count }, () => caseOf(random));
}

function caseOf(random: Random): Case {
  const kind = random.of(kinds);
  const empty = { query: "", body: "", type: "", cookie: "" };
  if (kind === "cookie") {
    const name = random.of(cookieNames);
    return { kind, request: { ...empty, name, cookie: cookieOf(name, random) } };
  }
  const name = random.of(names);
  const listed = pairsOf(name, random);
  if (kind === "query") return { kind, request: { ...empty, name, query: asQuery(listed) } };
  const query = random.below(4) === 0 ? asQuery(pairsOf(name, random)) : "";
  const cookie = random.below(4) === 0 ? cookieOf(name, random) : "";
  if (random.below(8) === 0) {
    const body = random.below(2) === 0 ? asJson(name, listed, random) : asMultipart(name, listed);
    return { kind, request: { ...empty, name, query, body, type: random.of(typesOfForms), cookie } };
  }
  const written = random.below(3) > 0 ? asForm(listed) : listed;
  const body = random.below(10) === 0 ? "" : written;
  return { kind, request: { ...empty, name, query, body, type: random.of(types), cookie } };
}

function pairsOf(name: string, random: Random): string {
  let text = random.of(beginnings);
  const count = 1 + random.below(4);
  for (let i = 0; i < count; i++) {
    if (i > 0) text += random.of(separators);
    text +=
      nameOf(name, random) +
      random.of(["=", "=", "=", "=", "=", "=", "", "==", "%3d", " =", "= "]) +
      spelledValue(random);
  }
  // Some servers read no more than a thousand.
  if (random.below(300) === 0) text = `${"f=1&".repeat(990 + random.below(30))}${text}`;
  if (random.below(300) === 0) text += "&f=1".repeat(990 + random.below(30));
  return text + random.of(endings);
}

/** A victim in JSON, beside whatever a form may have within a text. */
function asJson(name: string, listed: string, random: Random): string {
  const beginning = `{${JSON.stringify(name)}:"victim","x":"`;
  const before = random.of(beforeJson);
  if (random.below(6) > 0) return `${before}${beginning}${JSON.stringify(`&${listed}&`).slice(1)}}`;
  // Python finds out that this is UTF-16. Of what is within the text, each two bytes are a character.
  const inUtf16 = (text: string) => Buffer.from(text, "utf16le").toString("latin1");
  return `${before}${inUtf16(beginning)}${listed.length % 2 === 0 ? "&" : "&&"}${listed}&${inUtf16('"}')}`;
}

function asMultipart(name: string, listed: string): string {
  return `&${listed}&\r\n--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\nvictim\r\n--b--\r\n`;
}

function cookieOf(name: string, random: Random): string {
  let text = random.of(cookieBeginnings);
  const count = 1 + random.below(4);
  for (let i = 0; i < count; i++) {
    if (i > 0) text += random.of(cookieSeparators);
    text += nameOf(name, random) + random.of(["=", "=", "=", "=", "", " =", "= ", "==", '="']) + spelledValue(random);
  }
  // nginx lets no header with these through.
  return text.replace(/[\0\r\n]/g, "");
}

function nameOf(name: string, random: Random): string {
  let written = name;
  const changes = random.of([0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3]);
  for (let i = 0; i < changes; i++) written = changed(written, random);
  return random.below(6) === 0 ? random.of(others) : written;
}

function changed(written: string, random: Random): string {
  const at = random.below(written.length + 1);
  const code = written.charCodeAt(at);
  switch (random.below(8)) {
    case 0:
      return random.of(scraps) + written;
    case 1:
      return written + random.of(scraps);
    case 2:
      return written.slice(0, at) + random.of(scraps) + written.slice(at);
    case 3:
      return written.slice(0, at) + random.of(scraps) + written.slice(at + 1);
    case 4:
      if (Number.isNaN(code)) return capitals(written);
      return `${written.slice(0, at)}%${code.toString(16).padStart(2, "0")}${written.slice(at + 1)}`;
    case 5:
      return written.slice(0, at) + capitals(written.slice(at, at + 1)) + written.slice(at + 1);
    case 6:
      return random.below(2) === 0
        ? capitals(written)
        : written.replace(/[._ [\]]/g, () => random.of([".", "_", " ", "[", "]", "+", "%5b"]));
    default:
      return (
        random.of(["[", "]", "[x]", "[]", " ", "+", "%20", "."]) +
        written +
        random.of(["", "", "]", "[]", "[x]", "[0", ".", "%00", "%00x"])
      );
  }
}

function spelledValue(random: Random): string {
  const value = random.of([
    "victim",
    "victim",
    "decoy",
    "decoy",
    "x",
    "",
    "a+b",
    "a%20b",
    "caf%c3%a9",
    "100%",
    "%76ictim",
    '"victim"',
    "a/b==",
  ]);
  if (random.below(400) === 0) return value.repeat(2_000);
  if (random.below(8) === 0) return random.of(blanks) + value + random.of(blanks);
  return random.below(6) === 0 ? changed(value, random) : value;
}

/** Capitals of ASCII: each character stays a byte. */
function capitals(text: string): string {
  return text.replace(/[a-z]/g, (letter) => letter.toUpperCase());
}

/** @returns as a URL can have it: nginx refuses control bytes and blanks in a request line, and cuts at "#" */
function asQuery(text: string): string {
  return text.replace(/[\0- #\u007f]/g, (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** @returns without control bytes and broken encodings, for one of which Sluice answers 400 to the whole form */
function asForm(text: string): string {
  const pairs = asQuery(text)
    .replace(/%[01][0-9a-f]|%(?![0-9a-f]{2})/gi, "")
    .split("&");
  return pairs.map((pair) => pair.replace(/(?<==.*)=/g, "%3d")).join("&");
}
