// How much memory large bodies may take together, and who gives way when it is used up.

import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { BodiesHeld } from "../../../control-plane/src/bodies/bodies-held.ts";
import { manyDocuments } from "../../../control-plane/src/bodies/many-documents.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";
import { until } from "../../fixtures/until.ts";

const mebibyte = 1_048_576;

function start() {
  const bodies = new BodiesHeld();
  /** @param size in mebibytes */
  const begin = (app: string, name: string, size: number) => {
    const body = bodies.begin({ app, name }, manyDocuments);
    body.add(size * mebibyte);
    return body;
  };
  return { bodies, begin };
}

const gaveWay = "gave way to another one: send it again.";
const busy = "Other bodies take the memory that there is for them. Nothing was stored.";

test("one app's bodies leave room for another's, which may hold as much", () => {
  const { begin } = start();
  begin("shop", "ann", 40);
  const second = begin("shop", "ann", 24);
  expect(() => second.add(1)).toThrow(busy);
  second.end();
  begin("books", "bob", 64);
});

test("whoever has the most in an app gives way to whoever has less, and not to one with as much", () => {
  const { begin } = start();
  const large = begin("shop", "ann", 60);
  const small = begin("shop", "bob", 3);
  small.add(5 * mebibyte);
  expect(() => large.check()).toThrow(gaveWay);
  small.add(24 * mebibyte);
  const other = begin("shop", "ann", 32);
  expect(() => other.add(1)).toThrow(busy);
  small.check();
});

test("the app with the most gives way to another one, whoever sends, and what has ended counts no more", () => {
  const { begin } = start();
  const [first, second] = [begin("one", "ann", 63), begin("two", "ann", 64)];
  const third = begin("three", "ann", 1);
  first.check();
  third.add(mebibyte);
  expect(() => second.check()).toThrow(gaveWay);
  expect(() => second.add(1)).toThrow(gaveWay);
  third.end();
  third.end();
  begin("two", "ann", 64);
  first.check();
});

test("a body that is being stored stays, and others give way", () => {
  const { begin } = start();
  const stored = begin("one", "ann", 64);
  stored.stay();
  const read = begin("two", "bob", 60);
  const third = begin("three", "cid", 1);
  third.add(10 * mebibyte);
  stored.check();
  expect(() => read.check()).toThrow(gaveWay);
  expect(() => read.stay()).toThrow(gaveWay);
  third.stay();
  begin("two", "bob", 53);
  const late = begin("four", "dan", 1);
  late.check();
});

test("a body counts as a mebibyte before anything of it has come, so that there are not thousands of them", () => {
  const { begin } = start();
  for (let i = 0; i < 64; i++) begin("one", "ann", 0);
  expect(() => begin("one", "ann", 0)).toThrow(busy);
  for (let i = 0; i < 64; i++) begin("two", "bob", 0);
  begin("three", "cid", 0);
});

test.each([1, 2_000])(
  "among two thousand bodies of %i senders, whoever gives way is found in microseconds",
  (senders) => {
    const { bodies } = start();
    const size = Math.floor((64 * mebibyte) / 2_000);
    const begin = (name: string) => bodies.begin({ app: "one", name }, { ...manyDocuments, leastBytes: 0 });
    const isRefused = (act: () => void) => {
      try {
        act();
        return false;
      } catch {
        return true;
      }
    };
    const all = Array.from({ length: 2_000 }, (_, i) => begin(`t${i % senders}`));
    for (const body of all) body.add(size);
    let refused = 0;
    const beganMs = processorMs();
    for (let i = 0; i < 1_000; i++) {
      const [own, other, next] = [begin("t0"), begin("new"), begin("t0")];
      if (isRefused(() => own.add(1_000))) refused += 1;
      own.end();
      other.add(1_000);
      other.end();
      next.add(size);
      all.push(next);
    }
    expect(processorMs() - beganMs).toBeLessThan(150);
    expect(refused).toBe(1_000);
    expect(all.filter((body) => !isRefused(() => body.check()))).toHaveLength(2_000);
  },
);

test("a large body waits for a turn now and then", async () => {
  const { bodies } = start();
  const body = bodies.begin({ app: "one", name: "ann" }, manyDocuments);
  const stream = new PassThrough();
  const waiting: (() => void)[] = [];
  const read = body.whole(stream, () => new Promise((resolve) => waiting.push(resolve)));
  const chunk = Buffer.alloc(32_768);
  for (let turns = 1; turns <= 6; turns++) {
    stream.write(chunk);
    await until("it waits", async () => waiting.length === turns);
    waiting[turns - 1]?.();
  }
  stream.end();
  expect((await read).length).toBe(6 * chunk.length);
});

test("a body of which nothing comes any more is given up at once, and reads no more", async () => {
  const { bodies, begin } = start();
  const body = bodies.begin({ app: "one", name: "ann" }, { ...manyDocuments, bytesForEach: 64 });
  const stream = new PassThrough();
  stream.write(Buffer.alloc(mebibyte - 1));
  const read = body.whole(stream, async () => undefined);
  await until("all has come", async () => body.size > 63 * mebibyte);
  begin("two", "bob", 60);
  begin("three", "cid", 5);
  await expect(read).rejects.toThrow(gaveWay);
  stream.write("more");
  await until("nobody reads on", async () => stream.listenerCount("readable") === 0);
  expect(stream.destroyed).toBe(false);
});

test("the text of a body is what has come", async () => {
  const { bodies } = start();
  const body = bodies.begin({ app: "one", name: "ann" }, { ...manyDocuments, mostBytes: 8 });
  const stream = new PassThrough();
  stream.end("10.0.0.0");
  expect((await body.whole(stream, async () => undefined)).toString()).toBe("10.0.0.0");
  expect(() => body.add(1)).toThrow("The body is larger than");
});
