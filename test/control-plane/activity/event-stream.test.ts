import { describe, expect, it } from "vitest";
import { EventStream } from "../../../control-plane/src/activity/event-stream.ts";

describe("a stream of events", () => {
  it("that nobody reads has no room when 256 KiB wait, and ends half a minute later", async () => {
    let ends = 0;
    const stream = new EventStream(() => {
      ends += 1;
    });
    const long = "x".repeat(250_000);
    stream.send("top", long);
    expect(stream.hasRoom).toBe(true);
    stream.send("top", long);
    expect(stream.hasRoom).toBe(false);
    for (let i = 0; i < 120; i++) stream.endIfUnread();
    expect(stream.body.destroyed).toBe(false);
    stream.endIfUnread();
    expect(stream.body.destroyed).toBe(true);
    stream.send("top", "");
    await new Promise(setImmediate);
    expect(ends).toBe(1);
  });

  it("whose client reads now and then goes on", () => {
    const stream = new EventStream(() => {});
    for (let i = 0; i < 1_000; i++) {
      if (stream.hasRoom) stream.send("top", "x".repeat(300_000));
      if (i % 100 === 99) stream.body.read();
      stream.endIfUnread();
    }
    expect(stream.body.destroyed).toBe(false);
  });

  it("that is read goes on, however much comes", async () => {
    const stream = new EventStream(() => {});
    let read = 0;
    stream.body.on("data", (text: Buffer) => {
      read += text.length;
    });
    for (let i = 0; i < 20; i++) {
      stream.send("top", "x".repeat(100_000));
      await new Promise(setImmediate);
    }
    expect(stream.body.destroyed).toBe(false);
    expect(read).toBeGreaterThan(2_000_000);
  });
});
