// The console remembers in this browser how it looks and which app was used last, and nothing that others should not read.

import { useState } from "react";

/** A choice that outlives the page. A browser may forbid to keep anything; then it lasts as long as the page. */
export function useKept<Choice extends string>(
  name: string,
  choices: readonly Choice[],
  otherwise: Choice,
): [Choice, (choice: Choice) => void] {
  const [choice, setChoice] = useState(() => {
    const text = kept(name);
    return choices.find((one) => one === text) ?? otherwise;
  });
  const choose = (next: Choice) => {
    setChoice(next);
    keep(name, next);
  };
  return [choice, choose];
}

/** Does nothing if the browser forbids it. */
export function keep(name: string, text: string): void {
  try {
    localStorage.setItem(keyOf(name), text);
  } catch {}
}

export function kept(name: string): string | undefined {
  try {
    return localStorage.getItem(keyOf(name)) ?? undefined;
  } catch {
    return undefined;
  }
}

const keyOf = (name: string) => `sluice-${name}`;
