// The policy that somebody edits: form and text in step, and what is wrong with it, where.

import { expect, it } from "vitest";
import {
  type Draft,
  draftOf,
  draftOfText,
  faultAt,
  pathOf,
  valueAt,
  withField,
} from "../../console/src/pages/policies/editor/draft.ts";

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
