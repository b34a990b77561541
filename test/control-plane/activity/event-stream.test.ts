import { describe, expect, it } from "vitest";
import { EventStream } from "../../../control-plane/src/activity/event-stream.ts";

describe("a stream of events", () => {
  it("that nobody reads ends when 256 KiB wait and one more comes, however long the last one was", async () => {
    let ends = 0;
    const stream = new EventStream(() => {
      ends += 1;
    });
    const long = "x".repeat(250_000);
    stream.send("top", long);
    stream.send("top", long);
    expect(stream.body.destroyed).toBe(false);
    stream.send("top", "");
    expect(stream.body.destroyed).toBe(true);
    expect(stream.body.readableLength).toBeLessThan(501_000);
    stream.send("top", "");
    await new Promise(setImmediate);
    expect(ends).toBe(1);
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
