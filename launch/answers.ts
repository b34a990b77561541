// `node launch/answers.ts URL`: exits with 0 when the URL answers 2xx within two seconds, otherwise with 1. The health
// checks of the images use it, because the images have no curl.
export {};

const [url = ""] = process.argv.slice(2);

try {
  const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
}
