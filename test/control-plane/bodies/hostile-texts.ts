// Texts of 256 KiB that are made to take long to read, each for another part of the reader.

const bytes = 256 * 1024;

function filled(text: string, length = bytes): string {
  return text.repeat(Math.floor(length / text.length));
}

function within(head: string, text: string, tail: string): string {
  return head + filled(text, bytes - head.length - tail.length) + tail;
}

function lines(line: (i: number) => string, head = ""): string {
  const all = head === "" ? [] : [head];
  for (let length = head.length + 1, i = 0; ; i++) {
    length += line(i).length + 1;
    if (length > bytes) return all.join("\n");
    all.push(line(i));
  }
}

/** A policy with too many overrides: its form is valid, and it takes half a second to read. */
export const slowYaml = lines(
  (i) => `  - key: [vip-${i}]\n    limits:\n      - { algorithm: fixed-window, quota: 5, window: 1s }`,
  'key: ["header:x"]\nlimits: [{ algorithm: fixed-window, quota: 1, window: 1s }]\noverrides:',
);

export const hostileYaml: Readonly<Record<string, string>> = {
  "open lists": filled("["),
  "open objects": filled("{"),
  "keys with a bracket": filled("a: }\n"),
  "keys in keys": filled("a: b: "),
  dashes: filled("- "),
  pendingChecks: filled("? "),
  "a stair": lines((i) => `${" ".repeat(i % 400)}a:`),
  "aliases of aliases": ["a0: &a0 [x]", lines((i) => `a${i + 1}: &a${i + 1} [*a${i},*a${i}]`).slice(0, -400)].join(
    "\n",
  ),
  "one anchor again and again": `- &a [1]\n${filled("- &a [*a,*a]\n", bytes - 20)}`,
  anchors: lines((i) => `- &a${i} x`),
  "anchors and aliases": lines((i) => `- &a${i} x\n- *a${i}`),
  keys: lines((i) => `k${i}: 1`),
  "empty lists": within("[", "[],", "]"),
  numbers: within("[", "1,", "]"),
  tabs: filled("\t"),
  "tabs and keys": filled("\tx: 1\n"),
  "empty lines": filled("\n"),
  comments: filled("# c\n"),
  "comments in a list": within("[", " #\n1,", "]"),
  "comments between": within("a:\n", "  # x\n  - b\n", ""),
  "a folded text": within("a: >\n", "  x\n\n", ""),
  "a quoted text of many lines": within('a: "', "x\n  ", '"'),
  "wrong escapes": within('a: "', "\\q", '"'),
  "texts side by side": filled('""'),
  "tags in a row": within("a: ", "!!str ", "x"),
  documents: filled("---\n"),
  directives: filled("%YAML 1.2\n"),
  "a long number": within("- ", "1", ""),
  "a list that is a key": within("[", "a,", "]: b"),
  "many overrides": slowYaml,
};

function json(head: string, item: (i: number) => string, tail: string): string {
  const items: string[] = [];
  for (let length = head.length + tail.length, i = 0; ; i++) {
    length += item(i).length + 1;
    if (length > bytes) return `${head}${items.join(",")}${tail}`;
    items.push(item(i));
  }
}

const limit = '{"algorithm":"fixed-window","quota":1,"window":"1s"}';

export const hostileJson: Readonly<Record<string, string>> = {
  "open lists": filled("["),
  "open objects": filled('{"a":'),
  "a long text": `{"description":"${filled("x", bytes - 30)}"}`,
  "unknown fields": json("{", (i) => `"f${i}":1`, "}"),
  "empty limits": json('{"limits":[', () => "{}", "]}"),
  "limits and overridden limits": json(
    `{"limits":[${Array.from({ length: 6_000 }, (_, i) => `{"name":"a${i}"}`).join(",")}],"overrides":[{"key":[],"limits":[`,
    (i) => `{"name":"b${i}"}`,
    "]}]}",
  ),
  "many overrides": json(`{"limits":[${limit}],"overrides":[`, (i) => `{"key":["${i}"],"limits":[${limit}]}`, "]}"),
  "a regular expression of groups": `{"match":{"paths":["~${filled("(", bytes - 40)}"]}}`,
  "regular expressions": json('{"match":{"paths":[', () => `"~^${"(a|b)*c".repeat(140)}$"`, "]}}"),
  paths: json('{"match":{"paths":[', () => '"/"', "]}}"),
  headers: json('{"match":{"headers":{', (i) => `"h${i}":["x"]`, "}}}"),
  "key parts": json('{"key":[', () => '"ip"', '],"exempt":{"keys":[["a"]]}}'),
  "long key parts": json('{"key":[', (i) => `"header:${"x".repeat(240)}${i}"`, "]}"),
  "exempt keys": json('{"key":["ip"],"exempt":{"keys":[', () => '["1.2.3.4/99"]', "]}}"),
  "exempt networks": json('{"exempt":{"cidrs":[', (i) => `"10.${i % 256}.0.0/99"`, "]}}"),
  "a long zone": `{"schedule":{"timezone":"${filled("Europe/", bytes - 80)}","windows":[]}}`,
  windows: json('{"schedule":{"timezone":"UTC","windows":[', () => '{"from":"1","to":"1"}', "]}}"),
  "escaped keys": json("{", (i) => `"\\u0061${i}":"\\u0061"`, "}"),
  "a long number": `{"cost":${filled("1", bytes - 20)}}`,
  "a long header line": `{"onLimit":{"headers":["${filled("x", bytes - 60)}: 1"]}}`,
  "a long uri": `{"onLimit":{"action":"degrade","uri":"/${filled("%2e", bytes - 80)}"}}`,
};
