// The console's language: the browser's, until somebody chooses. Only the words of that language are loaded.

import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { IntlProvider, type Messages } from "use-intl";
import { useKept } from "./kept.ts";

export const languages = ["en", "zh"] as const;
export type Language = (typeof languages)[number];
const wordsOf: Readonly<Record<Language, () => Promise<{ default: unknown }>>> = {
  en: () => import("../words/en.ts"),
  zh: () => import("../words/zh.ts"),
};

const LanguageContext = createContext<[Language, (language: Language) => void]>(["en", () => undefined]);

/** Shows nothing until the words are there; after that, the former language until those of another one are. */
export function LanguageProvider({ children }: { children: ReactNode }) {
  const kept = useKept<Language>("language", languages, navigator.language.startsWith("zh") ? "zh" : "en");
  const [chosen] = kept;
  const [spoken, setSpoken] = useState<{ language: Language; words: Messages }>();
  useEffect(() => {
    let isCurrent = true;
    void wordsOf[chosen]().then((words) => {
      if (isCurrent) setSpoken({ language: chosen, words: words.default as Messages });
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
        {children}
      </IntlProvider>
    </LanguageContext.Provider>
  );
}

export function useLanguage(): [Language, (language: Language) => void] {
  return useContext(LanguageContext);
}
