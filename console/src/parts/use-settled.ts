// What somebody types, once they pause: nothing is asked of the control plane for each letter.

import { useEffect, useState } from "react";

const pauseMs = 250;

/** @returns the value as it was before until it has stayed the same for 250 ms */
export function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
