// The layout of a snapshot's or a delta's text: one JSON document that has all small values on its first line, and each entry on a
// line of its own. So it can be read and written one line at a time. The lines hold all that the document holds; a text that is
// not JSON, or has any other layout, is recognized as such.
//
//   {"type":"snapshot","epoch":"…","revision":7,"format":1,
//   "bans":[
//   ],
//   "callers":[
//   ],
//   "policies":[
//   {"app":"shop","document":{…}},
//   {"app":"shop","document":{…}}
//   ]}
//
// The lists "apps" and "networks" come before "bans" and are left out if they are empty. Readers from before there were realms, or lists
// of networks, see that a text with them has another layout. A delta has one list more at the end, "gone".

export type ListName = "apps" | "networks" | "bans" | "callers" | "policies" | "gone";
export type FrameType = "snapshot" | "delta";

const listsOfSnapshot: readonly ListName[] = ["apps", "networks", "bans", "callers", "policies"];
const listsOfDelta: readonly ListName[] = ["apps", "networks", "bans", "callers", "policies", "gone"];

/** The lists of a text, in order. */
export function listsOf(type: FrameType): readonly ListName[] {
  return type === "delta" ? listsOfDelta : listsOfSnapshot;
}

/** Returns whether the list is left out if it is empty. */
export function isOptional(name: ListName): boolean {
  return name === "apps" || name === "networks";
}

/** Separates the lines of a list. */
export const betweenLines = ",\n";

/** The text before a list's first line. @param head a JSON object of one line, not empty @param isFirst no list comes before */
export function beforeList(name: ListName, isFirst: boolean, head: string): string {
  return `${isFirst ? head.slice(0, -1) : ""},\n"${name}":[\n`;
}

/** The text after a list's last line. */
export function afterList(isEmpty: boolean, isLast: boolean): string {
  return `${isEmpty ? "" : "\n"}]${isLast ? "}\n" : ""}`;
}

/** @param lists JSON values of one line each */
export function layOut(
  type: FrameType,
  head: string,
  lists: Readonly<Partial<Record<ListName, readonly string[]>>>,
): string {
  let text = "";
  const names = listsOf(type);
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as ListName;
    const entries = lists[name] ?? [];
    if (isOptional(name) && entries.length === 0) continue;
    text += `${beforeList(name, text === "", head)}${entries.join(betweenLines)}${afterList(entries.length === 0, i === names.length - 1)}`;
  }
  return text;
}

/** Receives what the lines hold. */
export interface LineTaker {
  /** @returns the type of the text; undefined: it is neither */
  head(this: void, text: string): FrameType | undefined;
  /** Returns whether it could make sense of the entry. */
  entry(this: void, list: ListName, text: string): boolean;
}

export interface LineReader {
  names: readonly ListName[];
  /** The index of the list that is being read or comes next. -1: the head comes next. */
  list: number;
  /** What must come next. */
  next: "opening" | "entry or end" | "entry" | "end" | "nothing";
}

export function newLineReader(): LineReader {
  return { names: listsOfSnapshot, list: -1, next: "opening" };
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
    if (!comma || !text.startsWith("{")) return false;
    const type = taker.head(`${text}}`);
    if (type === undefined) return false;
    reader.list = 0;
    reader.names = listsOf(type);
    return true;
  }
  let name = reader.names[list] as ListName;
  if (next === "opening") {
    while (isOptional(name) && text !== `"${name}":[`) {
      reader.list += 1;
      name = reader.names[reader.list] as ListName;
    }
    if (comma || text !== `"${name}":[`) return false;
    reader.next = "entry or end";
    return true;
  }
  const isLast = list === reader.names.length - 1;
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
