import type en from "../words/en.json";

declare module "use-intl" {
  interface AppConfig {
    Messages: typeof en;
  }
}
