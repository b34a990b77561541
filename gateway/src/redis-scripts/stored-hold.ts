// A caller's hold in Redis: a string beside the counters, which expires when the last of its slots do.
//
//   32 bytes            of which policy and key, and how many slots, the hold is
//   32 bytes each limit which limit (16 bytes), and the moment that its slots were taken or last renewed in (µs since the epoch, in 16 digits)

declare const redis: {
  call(this: void, command: "GET", key: string): string | false;
  call(this: void, command: "SET", key: string, value: string, px: "PX", ms: string): void;
};

const markBytes = 32;
const limitBytes = 16;
const momentBytes = 16;

/** @returns undefined: nothing is held under this key, or something else */
export function loadHold(key: string, mark: string): string | undefined {
  const stored = redis.call("GET", key);
  return stored === false || string.sub(stored, 1, markBytes) !== mark ? undefined : stored;
}

/** @returns undefined: the hold has no slots of this limit, which came later */
export function heldAtUs(stored: string, limit: string): number | undefined {
  let moment: number | undefined;
  for (let at = markBytes; at < stored.length; at += limitBytes + momentBytes) {
    if (string.sub(stored, at + 1, at + limitBytes) === limit) {
      moment = tonumber(string.sub(stored, at + limitBytes + 1, at + limitBytes + momentBytes)) as number;
    }
  }
  return moment;
}

export function heldText(limit: string, us: number): string {
  return limit + string.format("%016.0f", us);
}

export function saveHold(key: string, text: string, lifeMs: string): void {
  redis.call("SET", key, text, "PX", lifeMs);
}

/** Gateways may have no right to delete keys: an empty one expires at once, and holds nothing until then. */
export function forgetHold(key: string): void {
  redis.call("SET", key, "", "PX", "1");
}
