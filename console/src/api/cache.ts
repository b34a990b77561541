// What the console keeps of the control plane's answers.

import { QueryClient } from "@tanstack/react-query";
import { RequestError } from "./client.ts";

const mostTries = 2;

export function newCache(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (failures, error) => failures < mostTries && mayPass(error),
      },
    },
  });
}

/** A refusal stays a refusal; what has no answer may have one later. */
function mayPass(error: unknown): boolean {
  return error instanceof RequestError && (error.status === undefined || error.status >= 500);
}
