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

const prefix = "SLUICE_";
/** A longer name is cut in messages. No setting has half of it. */
const mostShown = 64;

/** Kubernetes sets SLUICE_SERVICE_HOST, SLUICE_PORT, SLUICE_PORT_80_TCP and more for a service called sluice. */
const serviceEnd = "_SERVICE_HOST";

/**
 * @param names of variables that are set
 * @returns a line for each that begins with SLUICE_ and that no part reads, with the most similar name
 */
export function unknownSettings(names: readonly string[]): string[] {
  const services = names
    .filter((name) => name.endsWith(serviceEnd))
    .map((name) => name.slice(0, name.length - serviceEnd.length));
  const isOfService = (name: string) =>
    services.some((service) => name.startsWith(`${service}_SERVICE_`) || `${name}_`.startsWith(`${service}_PORT_`));
  return names
    .filter((name) => name.startsWith(prefix) && !settingNames.includes(name) && !isOfService(name))
    .sort()
    .map((name) => {
      const shown = name.slice(0, mostShown);
      return `${shown} is no setting and does nothing; the nearest that there is: ${nearestTo(shown)}`;
    });
}

function nearestTo(name: string): string {
  let nearest = "";
  let least = name.length + mostShown;
  for (const known of settingNames) {
    const distance = editDistance(name, known);
    if (distance < least) {
      nearest = known;
      least = distance;
    }
  }
  return nearest;
}

/** Returns how many letters must be added, removed or changed to turn one name into the other. */
function editDistance(from: string, to: string): number {
  let row: number[] = [];
  for (let taken = 0; taken <= to.length; taken++) row.push(taken);
  for (let done = 0; done < from.length; done++) {
    const next = [done + 1];
    for (let at = 0; at < to.length; at++) {
      const changed = (row[at] as number) + (from.charAt(done) === to.charAt(at) ? 0 : 1);
      next.push(Math.min(changed, (row[at + 1] as number) + 1, (next[at] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}
