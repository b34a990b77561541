// Title and description of what is supplied, in the language of the console.

import type { Supplied } from "../api/queries.ts";
import { useLanguage } from "../settings/language.tsx";

export interface SuppliedWords {
  readonly title: string;
  /** What it is for, what the client sees, what to change. */
  readonly paragraphs: readonly string[];
}

/** @returns what says it; a language that it has no words in gets the English ones */
export function useSuppliedWords(): (supplied: Supplied) => SuppliedWords {
  const [language] = useLanguage();
  return (supplied) => {
    const { title, description } = supplied.translations[language] ?? supplied;
    return { title, paragraphs: description.trim().split("\n") };
  };
}
