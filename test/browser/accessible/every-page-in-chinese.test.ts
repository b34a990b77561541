import { everyPageIsAccessible } from "./every-page.ts";

everyPageIsAccessible("zh", "zh-Hans", "网关");
