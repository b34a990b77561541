// The demo upstream: answers every request with what it received (method, path, headers) as JSON.
import { createServer } from "node:http";
import { readSettings } from "./settings.ts";
import { fail } from "./step.mjs";

/** Shorter than the time after which the launcher kills a part. */
const maxStopMs = 5_000;

try {
  const { upstreamHost, upstreamPort } = readSettings(process.env);
  const server = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
    request.resume();
    request.on("end", () => {
      const body = `${JSON.stringify({ method: request.method, path: request.url, headers: request.headers })}\n`;
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
      response.end(request.method === "HEAD" ? undefined : body);
    });
  });
  server.on("error", fail);
  server.listen(upstreamPort, upstreamHost);
  let stopping = false;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (stopping) process.exit(1);
      stopping = true;
      // Requests in progress are answered; connections that only wait for a next request are closed.
      server.close(() => process.exit(0));
      setInterval(() => server.closeIdleConnections(), 100);
      setTimeout(() => process.exit(1), maxStopMs);
    });
  }
} catch (error) {
  fail(error);
}
