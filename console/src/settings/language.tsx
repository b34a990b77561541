// The console's language: the browser's, until somebody chooses.

import { createContext, type ReactNode, useContext, useEffect } from "react";
import { IntlProvider } from "use-intl";
import en from "../words/en.ts";
import zh from "../words/zh.ts";
import { useKept } from "./kept.ts";

export const languages = ["en", "zh"] as const;
export type Language = (typeof languages)[number];
const words = { en, zh: zh as typeof en };

const LanguageContext = createContext<[Language, (language: Language) => void]>(["en", () => undefined]);

export function LanguageProvider({ children }: { children: ReactNode }) {
  const kept = useKept<Language>("language", languages, navigator.language.startsWith("zh") ? "zh" : "en");
  const [language] = kept;
  useEffect(() => {
    document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  }, [language]);
  const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (
    <LanguageContext.Provider value={kept}>
      <IntlProvider locale={language} messages={words[language]} timeZone={timeZone}>
        {children}
      </IntlProvider>
    </LanguageContext.Provider>
  );
}

export function useLanguage(): [Language, (language: Language) => void] {
  return useContext(LanguageContext);
}
