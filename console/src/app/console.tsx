// The console as a whole: its language, what it has read of the control plane, and its pages.

import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { newCache } from "../api/cache.ts";
import { LanguageProvider } from "../settings/language.tsx";
import { ThemeProvider } from "../settings/theme.tsx";
import { newRouter } from "./router.tsx";

const cache = newCache();
const router = newRouter();

export function Console() {
  return (
    <ThemeProvider>
      <LanguageProvider>
        <QueryClientProvider client={cache}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </LanguageProvider>
    </ThemeProvider>
  );
}
