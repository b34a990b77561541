// `npm run rls`: starts Envoy's rate limit service, which asks a gateway that runs already.
import { rateLimitService } from "./parts.ts";
import { Processes } from "./processes.ts";
import { readSettingsAloud } from "./settings.ts";
import { fail, say } from "./step.mjs";

try {
  const settings = readSettingsAloud(process.env);
  const processes = new Processes();
  // The line says that it listens.
  const onLine = (line: string) => {
    if (!line.startsWith("sluice: rate limit service for Envoy on ")) return;
    processes.ready();
    say("ready");
  };
  processes.start({ ...rateLimitService(settings), onLine });
} catch (error) {
  fail(error);
}
