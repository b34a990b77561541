// The policy that somebody edits: form and text in step, and what is wrong with it, where.

import { describe, expect, it } from "vitest";
import {
  type Draft,
  draftOf,
  draftOfText,
  faultAt,
  type Json,
  pathOf,
  valueAt,
  withField,
} from "../../console/src/pages/policies/editor/draft.ts";
import { linesOf, textOfLines } from "../../console/src/pages/policies/editor/typed.ts";
import {
  headersOf,
  keysOf,
  secretOf,
  textOfHeaders,
  textOfKeys,
  textOfSecret,
  textOfWindows,
} from "../../console/src/pages/policies/editor/written.ts";

const books = { name: "books", limits: [{ algorithm: "fixed-window", quota: 5, window: "1m" }] };
const textOf = ({ text }: Draft, path: string) => {
  const fault = draftOfText(text).faults.find((one) => one.path === path);
  return fault === undefined ? undefined : text.slice(fault.from, fault.to);
};

it("shows a document as YAML that says the same, name first", () => {
  const draft = draftOf({ limits: books.limits, name: "books" });
  expect(draft.text).toMatch(/^name: books\n/);
  expect(draft.document).toEqual(books);
  expect(draft.faults).toEqual([]);
});

it("a field of the form changes the text, and keeps its comments and order", () => {
  const draft = draftOfText(
    "# for the shop\nlimits:\n  # all of them\n  - { algorithm: fixed-window, quota: 5, window: 1m }\nname: books\n",
  );
  const changed = withField(draft, ["limits", 0, "quota"], 7);
  expect(changed.text).toBe(
    "# for the shop\nlimits:\n  # all of them\n  - { algorithm: fixed-window, quota: 7, window: 1m }\nname: books\n",
  );
  expect(withField(changed, ["match", "paths"], ["/a", "/b"]).document).toMatchObject({
    match: { paths: ["/a", "/b"] },
  });
});

it("a field that is emptied is taken out, with the object that only it was in", () => {
  const draft = withField(draftOf(books), ["match", "paths"], ["/a"]);
  expect(withField(draft, ["match", "paths"], undefined).document).toEqual(books);
});

it("says what is wrong where it is: a value, a name that is unknown, what is missing at the object", () => {
  const draft = draftOfText(
    "name: books\nlimits:\n  - algorithm: fixed-window\n    quota: none\n    window: 1m\nqouta: 5\n",
  );
  expect(textOf(draft, "limits[0].quota")).toBe("none");
  expect(textOf(draft, "qouta")).toBe("5");
  const missing = draftOfText("name: books\nlimits:\n  - algorithm: fixed-window\n    quota: 5\n");
  expect(faultAt(missing, "limits[0].window")).toMatchObject({ path: "limits[0].window" });
  expect(textOf(missing, "limits[0].window")).toContain("algorithm");
  expect(faultAt(missing, "limits")).toBeDefined();
  expect(faultAt(missing, "match")).toBeUndefined();
});

it.each([
  ["name: [", undefined],
  ["", "nothing"],
  ["- a\n- b\n", "no object"],
  ["a: 1\na: 2\n", undefined],
])("text that is no policy document has no document, and a fault within the text: %j", (text, got) => {
  const { document, faults } = draftOfText(text);
  expect(document).toBeUndefined();
  expect(faults).toHaveLength(1);
  if (got !== undefined) expect(faults[0]?.got).toBe(got);
  expect(faults[0]?.to).toBeLessThanOrEqual(text.length);
});

it("leaves what a template says to the control plane, which has the template", () => {
  expect(draftOf({ ...books, onLimit: { template: "sorry" }, cost: { template: "by-size" } }).faults).toEqual([]);
});

it("reads the paths of faults", () => {
  expect(pathOf("limits[0].quota")).toEqual(["limits", 0, "quota"]);
  expect(pathOf("")).toEqual([]);
  expect(valueAt(books, ["limits", 0, "window"])).toBe("1m");
  expect(valueAt(books, ["match", "paths"])).toBeUndefined();
});

describe("text that somebody is in the middle of typing", () => {
  const limits = "limits: [{ algorithm: fixed-window, quota: 1, window: 1s }]\n";

  it.each([
    ["onLimit: reject\n", ["onLimit", "status"], 503],
    ["schedule: 9-5\n", ["schedule", "timezone"], "UTC"],
    ["exempt:\n", ["exempt", "cidrs"], ["10.0.0.0/8"]],
    ["overrides:\n  - \n", ["overrides", 0, "mode"], "off"],
    ["match: [a]\n", ["match", "paths"], ["/a"]],
  ] as const)("takes a field of the form: %j", (typed, path, value) => {
    const draft = withField(draftOfText(`name: a\n${typed}${limits}`), path, value);
    expect(valueAt(draft.document as Json, path)).toEqual(value);
    expect(draft.document).toMatchObject({ name: "a", limits: [{ quota: 1 }] });
  });

  it("keeps the other fields of what an alias stands for", () => {
    const draft = draftOfText(`x: &polite { status: 429, body: no }\nonLimit: *polite\n${limits}`);
    expect(withField(draft, ["onLimit", "status"], 503).document).toMatchObject({
      x: { status: 429, body: "no" },
      onLimit: { status: 503, body: "no" },
    });
  });

  it("stays as it is if it cannot be read, and says so also of too many aliases", () => {
    const unreadable = draftOfText("a: [");
    expect(withField(unreadable, ["name"], "b")).toBe(unreadable);
    const lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"];
    for (let i = 1; i < 6; i += 1)
      lines.push(
        `a${i}: &a${i} [${Array(10)
          .fill(`*a${i - 1}`)
          .join(", ")}]`,
      );
    expect(draftOfText(lines.join("\n"))).toMatchObject({ document: undefined, faults: [{ path: "" }] });
  });

  it("is shown as lines", () => {
    expect(textOfWindows([null, { days: "mon" }, { from: "08:00", to: "18:00" }])).toBe("-\nmon -\n08:00-18:00");
  });
});

it.each([
  ["secret parts", textOfSecret, secretOf, { "header:x-a": true, "query:b": false }, "header:x-a\nquery:b: false"],
  ["keys", textOfKeys, keysOf, [["a"], ["a", "b"]], "a\na | b"],
  ["keys that no line can have", textOfKeys, keysOf, [["x\ny"], ["a | b"], [" c"], [""], ['["d"]'], ["a", "b | c"]]],
  ["lines", textOfLines, linesOf, ["a", 'b "c"'], 'a\nb "c"'],
  ["texts that no line can have", textOfLines, linesOf, ["x\ny", " c", '"d"']],
  ["headers", textOfHeaders, headersOf, { "x-a": ["free", "trial"] }, "x-a: free, trial"],
  [
    "headers' values that no line can have",
    textOfHeaders,
    headersOf,
    { "x-a": ["", "x\ny", " c", '"d"'], "x-b": [""] },
  ],
])("%s of a document are in the form as they are, and stay so", (_, textOf, read, value, text?: string) => {
  expect(read(textOf(value))).toEqual(value);
  if (text !== undefined) expect(textOf(value)).toBe(text);
});

it("a header's value with a comma stays one value", () => {
  const headers = { "x-plan": ["a, b", 'c"d', "e"], "x-old": ["f"] };
  expect(textOfHeaders(headers)).toBe('x-plan: "a, b", "c\\"d", e\nx-old: f');
  expect(headersOf(textOfHeaders(headers))).toEqual(headers);
});
