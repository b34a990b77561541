// How many requests somebody may send, as an operator writes it: "500" or "500:5000".

/** A token bucket: `perSecond` requests a second in the long run, and at most `burst` at once. */
export interface Allowance {
  readonly perSecond: number;
  readonly burst: number;
}

export const allowanceRule =
  'requests a second from 1 to 1000000, if wanted with a burst from 1 to 10000000 ("500" or "500:5000"), or "off"';

/** A burst that nobody set is what comes in this time. */
const defaultBurstSeconds = 10;

/** @returns undefined if the text is neither an allowance nor "off" */
export function parseAllowance(text: string): Allowance | "off" | undefined {
  if (text === "off") return "off";
  const [, rate, burst] = /^([0-9]{1,7})(?::([0-9]{1,8}))?$/.exec(text) ?? [];
  const perSecond = Number(rate);
  const most = burst === undefined ? perSecond * defaultBurstSeconds : Number(burst);
  const isLegal = perSecond >= 1 && perSecond <= 1_000_000 && most >= 1 && most <= 10_000_000;
  return isLegal ? { perSecond, burst: most } : undefined;
}
