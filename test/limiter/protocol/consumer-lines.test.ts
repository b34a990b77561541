// The text of a message with consumers: gateways find in it, by these characters alone, whose line it is and what it says.

import { describe, expect, test } from "vitest";
import {
  consumersBeginning,
  lineOfConsumer,
  lineOfGoneConsumer,
  mostIdBytes,
  nameOfConsumer,
  separator,
} from "../../../limiter/src/protocol/consumer-lines.ts";
import type { ConsumersHead } from "../../../limiter/src/protocol/push-messages.ts";

describe("a consumer's line", () => {
  test("has its app, id and plan", () => {
    expect(lineOfConsumer("shop", "ann", "pro", undefined)).toBe("+shop:ann\tpro\n");
  });

  test("ends with its own limits if it has any", () => {
    const overrides = JSON.stringify({ books: [{ algorithm: "token-bucket", quota: 1, window: "1s" }] });
    expect(lineOfConsumer("shop", "bob", "free", overrides)).toBe(
      '+shop:bob\tfree\t{"books":[{"algorithm":"token-bucket","quota":1,"window":"1s"}]}\n',
    );
  });

  test("says that it is gone", () => {
    expect(lineOfGoneConsumer("shop", "carl")).toBe("-shop:carl\n");
  });

  test("is under the name that a gateway looks for when the consumer sends a request", () => {
    expect(nameOfConsumer("shop", "ann: the 1st")).toBe("shop:ann: the 1st");
    expect(lineOfConsumer("shop", "ann: the 1st", "pro", undefined)).toBe("+shop:ann: the 1st\tpro\n");
  });
});

test("what separates is a character that ids do not have, and texts of JSON write otherwise", () => {
  expect(separator).toBe("\t");
  expect(JSON.stringify("a\tb\n")).toBe('"a\\tb\\n"');
  expect(mostIdBytes).toBe(256);
});

test("a message of consumers is recognised by how its head begins", () => {
  const head: ConsumersHead = { type: "consumers", epoch: "e", from: 0, to: 2, more: false };
  expect(JSON.stringify(head).startsWith(consumersBeginning)).toBe(true);
  expect(JSON.stringify({ ...head, type: "snapshot" }).startsWith(consumersBeginning)).toBe(false);
});
