// Light or dark: as the system has it, until somebody chooses.

import { createContext, type ReactNode, useContext, useEffect } from "react";
import { useKept } from "./kept.ts";

export const themes = ["system", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

const ThemeContext = createContext<[Theme, (theme: Theme) => void]>(["system", () => undefined]);

export function ThemeProvider({ children }: { children: ReactNode }) {
  const kept = useKept<Theme>("theme", themes, "system");
  const [theme] = kept;
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  return <ThemeContext.Provider value={kept}>{children}</ThemeContext.Provider>;
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  return useContext(ThemeContext);
}
