// The names of all variables that any part of Sluice reads. Any other variable with the prefix SLUICE_ is probably misspelt.

const settingNames: readonly string[] = [
  "SLUICE_ADMIN_TOKEN",
  "SLUICE_API_RATE",
  "SLUICE_API_RATE_PER_ADDRESS",
  "SLUICE_API_TOKEN",
  "SLUICE_AUDIT_DAYS",
  "SLUICE_CHECK_SOCKET",
  "SLUICE_CHECK_TLS_CERTIFICATE",
  "SLUICE_CHECK_TLS_HOST",
  "SLUICE_CHECK_TLS_KEY",
  "SLUICE_CHECK_TLS_PORT",
  "SLUICE_CONTROL_HOST",
  "SLUICE_CONTROL_PORT",
  "SLUICE_CONTROL_URL",
  "SLUICE_DATABASE_CONNECTIONS",
  "SLUICE_DATABASE_URL",
  "SLUICE_DATA_DIR",
  "SLUICE_DEBUG_SECRET",
  "SLUICE_DRAIN_SECONDS",
  "SLUICE_FAILED_SIGN_IN_RATE",
  "SLUICE_GATEWAY_DIR",
  "SLUICE_GATEWAY_HOST",
  "SLUICE_GATEWAY_ID",
  "SLUICE_GATEWAY_PORT",
  "SLUICE_GATEWAY_PRIVATE_HOST",
  "SLUICE_GATEWAY_PRIVATE_PORT",
  "SLUICE_GATEWAY_TOKEN",
  "SLUICE_GATEWAY_TOKEN_FILE",
  "SLUICE_HEADERS",
  "SLUICE_HISTORY_BYTES",
  "SLUICE_HISTORY_DAYS",
  "SLUICE_LOG_LEVEL",
  "SLUICE_MAX_CHECKS",
  "SLUICE_MAX_EXPRESSION_STEPS",
  "SLUICE_MAX_POLICIES",
  "SLUICE_MAX_SNAPSHOT_BYTES",
  "SLUICE_MAX_WAITING",
  "SLUICE_NGINX",
  "SLUICE_OIDC_CLIENT_ID",
  "SLUICE_OIDC_CLIENT_SECRET",
  "SLUICE_OIDC_GROUPS",
  "SLUICE_OIDC_GROUPS_CLAIM",
  "SLUICE_OIDC_ISSUER",
  "SLUICE_OIDC_SCOPES",
  "SLUICE_OVERLOAD_QUEUE",
  "SLUICE_OVERLOAD_REDIS_P99_MS",
  "SLUICE_PUBLIC_URL",
  "SLUICE_REDIS_DEADLINE_MS",
  "SLUICE_REDIS_URL",
  "SLUICE_REQUIRE_SNAPSHOT",
  "SLUICE_RLS_DEADLINE_MS",
  "SLUICE_RLS_GATEWAY",
  "SLUICE_RLS_HEADERS",
  "SLUICE_RLS_HOST",
  "SLUICE_RLS_MAP",
  "SLUICE_RLS_MAX_PENDING",
  "SLUICE_RLS_ON_FAILURE",
  "SLUICE_RLS_PORT",
  "SLUICE_RLS_TOKEN",
  "SLUICE_ROLE",
  "SLUICE_SESSION_HOURS",
  "SLUICE_SESSION_IDLE_MINUTES",
  "SLUICE_STOP_DELAY_SECONDS",
  "SLUICE_TRUSTED_PROXIES",
  "SLUICE_UPSTREAM",
  "SLUICE_UPSTREAM_HOST",
  "SLUICE_UPSTREAM_PORT",
  "SLUICE_WORKERS",
];

/** @returns a line for each variable that is set but that no part reads, with the most similar name */
export function unknownSettings(env: NodeJS.ProcessEnv): string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith("SLUICE_") && env[name] !== "" && !settingNames.includes(name))
    .sort()
    .map((name) => `${name} is no setting and does nothing; the nearest that there is: ${nearestTo(name)}`);
}

function nearestTo(name: string): string {
  let nearest = "";
  let least = Number.POSITIVE_INFINITY;
  for (const known of settingNames) {
    const distance = editDistance(name, known);
    if (distance < least) [nearest, least] = [known, distance];
  }
  return nearest;
}

/** Returns how many letters must be added, removed or changed to turn one name into the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, taken) => taken);
  for (const [done, letter] of [...from].entries()) {
    const next = [done + 1];
    for (const [at, other] of [...to].entries()) {
      const changed = (row[at] as number) + (letter === other ? 0 : 1);
      next.push(Math.min(changed, (row[at + 1] as number) + 1, (next[at] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}
