// The console's language: the browser's, until somebody chooses. Only the words of that language are loaded.

import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { IntlProvider, type Messages } from "use-intl";
import { translatorOf } from "./expectations.ts";
import { useKept } from "./kept.ts";

export const languages = ["en", "zh"] as const;
export type Language = (typeof languages)[number];
const wordsOf: Readonly<Record<Language, () => Promise<{ default: unknown }>>> = {
  en: () => import("../words/en.ts"),
  zh: () => import("../words/zh.ts"),
};

/** What the validator says is English. */
const expectationsOf: Readonly<Record<Language, () => Promise<(text: string) => string>>> = {
  en: async () => (text) => text,
  zh: async () => translatorOf((await import("../words/zh-expectations.ts")).expectations),
};

const ExpectationContext = createContext<(text: string) => string>((text) => text);
const LanguageContext = createContext<[Language, (language: Language) => void]>(["en", () => undefined]);

/** Shows nothing until the words are there; after that, the former language until those of another one are. */
export function LanguageProvider({ children }: { children: ReactNode }) {
  const kept = useKept<Language>("language", languages, navigator.language.startsWith("zh") ? "zh" : "en");
  const [chosen] = kept;
  const [spoken, setSpoken] = useState<{
    language: Language;
    words: Messages;
    expectation: (text: string) => string;
  }>();
  useEffect(() => {
    let isCurrent = true;
    void Promise.all([wordsOf[chosen](), expectationsOf[chosen]()]).then(([words, expectation]) => {
      if (isCurrent) setSpoken({ language: chosen, words: words.default as Messages, expectation });
    });
    return () => {
      isCurrent = false;
    };
  }, [chosen]);
  useEffect(() => {
    if (spoken !== undefined) document.documentElement.lang = spoken.language === "zh" ? "zh-Hans" : "en";
  }, [spoken]);
  const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (spoken === undefined) return null;
  return (
    <LanguageContext.Provider value={kept}>
      <IntlProvider locale={spoken.language} messages={spoken.words} timeZone={timeZone}>
        <ExpectationContext.Provider value={spoken.expectation}>{children}</ExpectationContext.Provider>
      </IntlProvider>
    </LanguageContext.Provider>
  );
}

export function useLanguage(): [Language, (language: Language) => void] {
  return useContext(LanguageContext);
}

/** @returns what says in the person's language what the validator expected or got */
export function useExpectation(): (text: string) => string {
  return useContext(ExpectationContext);
}
