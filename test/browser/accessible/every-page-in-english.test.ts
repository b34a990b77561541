import { everyPageIsAccessible } from "./every-page.ts";

everyPageIsAccessible("en", "en", "Gateways");
