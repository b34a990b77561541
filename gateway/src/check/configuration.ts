// Reads an operator's whole configuration, with the files that it includes. `nginx -T` says which these are; what they have is read from
// them, because a comment may look like the line with which `nginx -T` begins a file.

import { readFile } from "../runtime/files.ts";
import { type Directive, readDirectives } from "./nginx-syntax.ts";

/** @param dump the output of `nginx -T` @param given what the option -g of nginx has */
export function readConfiguration(dump: string, given: string): Directive[] {
  const files: string[] = [];
  for (const [file = ""] of string.gmatch(dump, "# configuration file ([^\n]+):\n")) files.push(file);
  const [main = ""] = files;
  const directory = string.match(main, "^.*/")[0] ?? "";
  const read = (file: string): Directive[] =>
    readDirectives(readFile(file)[0] ?? "", file).flatMap((directive) => whole(directive));
  const whole = (directive: Directive): Directive[] => {
    const { name, words, inner } = directive;
    if (name === "include") return included(files, directory, words[0] ?? "").flatMap((file) => read(file));
    return [inner === undefined ? directive : { ...directive, inner: inner.flatMap((one) => whole(one)) }];
  };
  return [...readDirectives(given, "-g"), ...read(main)];
}

function included(files: readonly string[], directory: string, mask: string): string[] {
  const path = mask.startsWith("/") ? mask : directory + mask;
  // A set of characters stands for any character here: too many files are read rather than too few.
  const [withoutSets] = string.gsub(path, "%[[^%]]*%]", "?");
  const [literal] = string.gsub(withoutSets, "[%^%$%(%)%%%.%[%]%+%-]", "%%%0");
  const [anyText] = string.gsub(literal, "%*", "[^/]*");
  const [pattern] = string.gsub(anyText, "%?", "[^/]");
  return files.filter((file) => string.find(file, `^${pattern}$`)[0] !== undefined);
}
