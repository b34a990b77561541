// Redis 7.0.15 gives these slots for CLUSTER KEYSLOT; test/e2e/redis-cluster.test.ts asks a real one.

import { expect, it } from "vitest";
import { slotOf } from "../../../gateway/src/redis/hash-slot.ts";

it.each([
  // The check value of CRC-16/XMODEM, 0x31c3, is below the number of slots.
  ["123456789", 0x31c3],
  ["", 0],
  ["foo", 12182],
  ["somekey", 11058],
  ["foo{hash_tag}", 2515],
  ["{user1000}.following", 3443],
  ["foo{}{bar}", 8363],
  ["foo{{bar}}zap", 4015],
  ["foo{bar}{zap}", 5061],
  ["}{", 12793],
  ["a{b", 13340],
  ["\xc3\xb6\xff\x00", 10200],
])("%j lies in slot %i", (key, slot) => {
  expect(slotOf(key)).toBe(slot);
});
