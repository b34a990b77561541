// What the console remembers in this browser: how it looks, and nothing that anybody else should not read.

import { useState } from "react";

/** A choice that outlives the page. A browser may forbid to keep anything; then it lasts as long as the page. */
export function useKept<Choice extends string>(
  name: string,
  choices: readonly Choice[],
  otherwise: Choice,
): [Choice, (choice: Choice) => void] {
  const [choice, setChoice] = useState(() => {
    const kept = read(name);
    return choices.find((one) => one === kept) ?? otherwise;
  });
  const choose = (next: Choice) => {
    setChoice(next);
    try {
      localStorage.setItem(keyOf(name), next);
    } catch {}
  };
  return [choice, choose];
}

function read(name: string): string | undefined {
  try {
    return localStorage.getItem(keyOf(name)) ?? undefined;
  } catch {
    return undefined;
  }
}

const keyOf = (name: string) => `sluice-${name}`;
