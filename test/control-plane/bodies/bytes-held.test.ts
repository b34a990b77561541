// Tests how much memory bodies of many policies may take together.

import { expect, test } from "vitest";
import { BytesHeld } from "../../../control-plane/src/bodies/many-documents.ts";

const mebibyte = 1_048_576;

test("one app's bodies leave room for another's, which may hold as much", () => {
  const held = new BytesHeld();
  held.begin("shop").add(40 * mebibyte);
  const second = held.begin("shop");
  second.add(24 * mebibyte);
  expect(() => second.add(1)).toThrow('Other bodies with policies of the app "shop" take the memory');
  held.begin("books").add(60 * mebibyte);
});

test("all bodies together are bounded, and what has ended counts no more", () => {
  const held = new BytesHeld();
  const first = held.begin("shop");
  first.add(60 * mebibyte);
  held.begin("books").add(60 * mebibyte);
  const third = held.begin("music");
  expect(() => third.add(9 * mebibyte)).toThrow("Other bodies with many policies take the memory");
  third.end();
  first.end();
  first.end();
  held.begin("music").add(60 * mebibyte);
  held.begin("shop").add(8 * mebibyte);
  expect(() => held.begin("shop").add(1)).toThrow("Other bodies with many policies take the memory");
});

test("a single body is bounded, whoever else sends one", () => {
  const body = new BytesHeld().begin("shop");
  body.add(64 * mebibyte);
  expect(() => body.add(1)).toThrow("The body is larger than 64 MiB");
});
