// `node launch/answers.ts URL`: ends with 0 when the URL answers 2xx within two seconds, else with 1. The health checks
// of the images are made of it, which have no curl.
export {};

const [url = ""] = process.argv.slice(2);

try {
  const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
}
