import { expect, it } from "vitest";
import { Places } from "../../../control-plane/src/limits/places.ts";

const ann = { app: "one", name: "ann" };
const bob = { app: "one", name: "bob" };
const cid = { app: "two", name: "cid" };

const placesFor = (most: number, mostWaiting: number) => new Places(most, mostWaiting, () => new Error("gave way"));
const never = new Promise<void>(() => undefined);

it("gives a newcomer the last place of whoever has more, which ends at once", async () => {
  const places = placesFor(3, 1);
  const [first, second, third] = [await places.take(ann), await places.take(ann), await places.take(ann)];
  const other = await places.take(cid);
  await expect(third.untilLost(never)).rejects.toThrow("gave way");
  const another = await places.take(bob);
  await expect(second.untilLost(never)).rejects.toThrow("gave way");
  for (const place of [first, other, another]) await place.untilLost(Promise.resolve());
});

it("lets those wait who have as many as others, and gives the next place to who has the fewest", async () => {
  const places = placesFor(2, 2);
  const [first, second] = [await places.take(ann), await places.take(cid)];
  const began: string[] = [];
  const [third, fourth] = [ann, cid].map(async (who) => {
    const place = await places.take(who);
    began.push(who.name);
    return place;
  });
  await expect(places.take(ann)).rejects.toThrow("gave way");
  expect(began).toEqual([]);
  places.leave(second);
  places.leave(second);
  places.leave((await fourth) as typeof first);
  await third;
  expect(began).toEqual(["cid", "ann"]);
});

it("lets who waits with more give way to who waits with less", async () => {
  const places = placesFor(2, 2);
  const first = await places.take(ann);
  await places.take(ann);
  const waiting = [places.take(ann), places.take(ann)];
  const lost = expect(waiting[1]).rejects.toThrow("gave way");
  // Two of another app have a place each: the next of them waits in the line.
  const taken = await places.take(cid);
  const late = places.take(cid);
  await lost;
  places.leave(first);
  expect(await waiting[0]).not.toBe(taken);
  places.leave(taken);
  await late;
});
