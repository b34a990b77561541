// The layout of a snapshot's text: one JSON document that has all small values on its first line, and each app, ban, caller and
// policy on a line of its own. So it can be read one line at a time. The lines hold all that the document holds; a text that is
// not JSON, or has any other layout, is recognized as such.
//
//   {"type":"snapshot","format":1,"epoch":"…","revision":7,
//   "bans":[
//   ],
//   "callers":[
//   ],
//   "policies":[
//   {"app":"shop","document":{…}},
//   {"app":"shop","document":{…}}
//   ]}
//
// The list "apps" comes before "bans" and is left out if it is empty. Readers from before there were realms see that a text with
// it has another layout, and read it whole as JSON.

export type ListName = "apps" | "bans" | "callers" | "policies";

/** The order matters: policies are compiled with what comes before them. */
const listNames: readonly ListName[] = ["apps", "bans", "callers", "policies"];

/** The only list that may be left out. */
const optional: ListName = "apps";

/** @param head a JSON object of one line, not empty @param lists JSON values of one line each */
export function layOut(head: string, lists: Readonly<Record<ListName, readonly string[]>>): string {
  let text = head.slice(0, -1);
  for (const name of listNames) {
    const entries = lists[name];
    if (name === optional && entries.length === 0) continue;
    text += `,\n"${name}":[\n`;
    if (entries.length > 0) text += `${entries.join(",\n")}\n`;
    text += "]";
  }
  return `${text}}\n`;
}

/** Receives what the lines hold. Each function returns whether it could make sense of it. */
export interface LineTaker {
  head(this: void, text: string): boolean;
  /** Called once for each list, in order, also for a list without entries. */
  begin(this: void, list: ListName): boolean;
  entry(this: void, list: ListName, text: string): boolean;
}

export interface LineReader {
  /** The index of the list that is being read or comes next. -1: the head comes next. */
  list: number;
  /** What must come next. */
  next: "opening" | "entry or end" | "entry" | "end" | "nothing";
}

export function newLineReader(): LineReader {
  return { list: -1, next: "opening" };
}

export function isComplete(reader: LineReader): boolean {
  return reader.next === "nothing";
}

/**
 * @param line without its line break
 * @returns false if the text has another layout
 */
export function takeLine(reader: LineReader, line: string, taker: LineTaker): boolean {
  const comma = line.endsWith(",");
  const text = comma ? line.slice(0, -1) : line;
  const { list, next } = reader;
  if (next === "nothing") return false;
  if (list < 0) {
    reader.list = 0;
    return comma && text.startsWith("{") && taker.head(`${text}}`);
  }
  let name = listNames[list] as ListName;
  if (next === "opening") {
    if (name === optional && text !== `"${name}":[`) {
      reader.list += 1;
      name = listNames[reader.list] as ListName;
    }
    if (comma || text !== `"${name}":[`) return false;
    reader.next = "entry or end";
    return taker.begin(name);
  }
  const isLast = list === listNames.length - 1;
  if (text === (isLast ? "]}" : "]")) {
    if (next === "entry" || comma === isLast) return false;
    reader.list += 1;
    reader.next = isLast ? "nothing" : "opening";
    return true;
  }
  if (next === "end") return false;
  reader.next = comma ? "entry" : "end";
  return taker.entry(name, text);
}
