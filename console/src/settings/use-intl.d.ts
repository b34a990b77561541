import type en from "../words/en.ts";

declare module "use-intl" {
  interface AppConfig {
    Messages: typeof en;
  }
}
