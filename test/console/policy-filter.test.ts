// Which policies the list's search finds.

import { expect, it } from "vitest";
import type { ListedPolicy } from "../../console/src/api/queries.ts";
import { filtered, readPoliciesSearch } from "../../console/src/pages/policies/policy-filter.ts";

const policy = (name: string, document: object = {}) =>
  ({ name, document: { name, limits: [], ...document } }) as unknown as ListedPolicy;
const books = policy("books-per-user", { description: "For the shop", match: { paths: ["/api/books"] } });
const sms = policy("sms", { mode: "shadow", match: { hosts: ["sms.example.com"] } });
const old = policy("old", { mode: "off" });
const all = [books, sms, old];

it("finds every word in the name, the description, a host or a path, whatever its case", () => {
  expect(filtered(all, {})).toEqual(all);
  expect(filtered(all, { q: "BOOKS shop" })).toEqual([books]);
  expect(filtered(all, { q: "example.com" })).toEqual([sms]);
  expect(filtered(all, { q: "books nothing" })).toEqual([]);
});

it("finds by mode; a policy that names none is enforced", () => {
  expect(filtered(all, { mode: "enforce" })).toEqual([books]);
  expect(filtered(all, { mode: "off", q: "o" })).toEqual([old]);
});

it("reads the URL's search, and drops what is none of it", () => {
  expect(readPoliciesSearch({ app: "shop", q: "a b", mode: "shadow", x: 1 })).toEqual({
    app: "shop",
    q: "a b",
    mode: "shadow",
  });
  expect(readPoliciesSearch({ app: "", q: 7, mode: "other" })).toEqual({});
});
