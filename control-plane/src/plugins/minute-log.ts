// Lines of the log that requests may cause: each kind once a minute.

import fp from "fastify-plugin";
import { MinuteLog } from "../log/minute-log.ts";

declare module "fastify" {
  interface FastifyInstance {
    readonly minuteLog: MinuteLog;
  }
}

export default fp<{ uptimeMs: () => number }>(
  async (app, { uptimeMs }) => {
    app.decorate("minuteLog", new MinuteLog(app.log, uptimeMs, "more troubles of requests were not logged"));
  },
  { name: "minute-log" },
);
