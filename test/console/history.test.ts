// The history's filters and diffs.

import { expect, it } from "vitest";
import { isShown, readHistorySearch } from "../../console/src/pages/history/history-search.ts";
import { diffLinesOf } from "../../console/src/parts/diff/diff-lines.ts";

it("shows of a diff what was added, removed and stayed, without the names of files", () => {
  const diff = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n name: books\n-quota: 5\n+quota: 7\n\\ No newline at end of file\n";
  expect(diffLinesOf(diff).map(({ kind, text }) => [kind, text])).toEqual([
    ["place", "@@ -1,2 +1,2 @@"],
    ["same", " name: books"],
    ["removed", "-quota: 5"],
    ["added", "+quota: 7"],
  ]);
});

it("filters by app and by a part of a policy's name, as the URL says", () => {
  const revision = { app: "shop", policy: "books-per-user" };
  expect(isShown(revision, readHistorySearch({ app: "shop", policy: "books" }))).toBe(true);
  expect(isShown(revision, readHistorySearch({ app: "bank" }))).toBe(false);
  expect(isShown({ app: "shop" }, readHistorySearch({ policy: "books" }))).toBe(false);
  expect(readHistorySearch({ app: 7, policy: "" })).toEqual({});
});
