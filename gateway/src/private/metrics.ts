// GET /sluice/metrics, in Prometheus' text form. On the private listener only: names of apps and policies are in it.

import { decisionCounts, eventCount } from "../metrics/counts.ts";
import { isConnected, liveGateways } from "../push/fleet.ts";
import { countersDict } from "../runtime/shared-memory.ts";
import { currentSnapshot } from "../snapshot/current.ts";

export function metrics(): void {
  const lines: string[] = [];
  heading(lines, "sluice_decisions_total", "counter", "Decisions by policy and result.");
  for (const { app, policy, result, count } of decisionCounts()) {
    lines.push(`sluice_decisions_total{app="${app}",policy="${policy}",result="${result}"} ${whole(count)}`);
  }
  gauge(lines, "sluice_snapshot_revision", "Revision that this worker decides by.", currentSnapshot().revision);
  gauge(lines, "sluice_push_connected", "1 while the control plane is connected.", isConnected() ? 1 : 0);
  gauge(lines, "sluice_live_gateways", "Gateways of the fleet, as the control plane last told.", liveGateways());
  gauge(lines, "sluice_counters_capacity_bytes", "Size of the shared dict of counters.", countersDict.capacity());
  gauge(lines, "sluice_counters_free_bytes", "Free pages of the shared dict of counters.", countersDict.free_space());
  total(lines, "sluice_lock_timeouts_total", "Charges that went on without their lock.", eventCount("lock-timeouts"));
  total(lines, "sluice_counter_evictions_total", "Counters evicted for want of memory.", eventCount("evictions"));
  total(
    lines,
    "sluice_unstored_charges_total",
    "Requests that passed uncounted for want of memory.",
    eventCount("unstored-charges"),
  );
  ngx.header["Content-Type"] = "text/plain; version=0.0.4";
  ngx.print(`${lines.join("\n")}\n`);
}

function gauge(lines: string[], name: string, help: string, value: number): void {
  heading(lines, name, "gauge", help);
  lines.push(`${name} ${whole(value)}`);
}

function total(lines: string[], name: string, help: string, value: number): void {
  heading(lines, name, "counter", help);
  lines.push(`${name} ${whole(value)}`);
}

function heading(lines: string[], name: string, type: string, help: string): void {
  lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
}

/** Lua writes large numbers with an exponent, and with 14 digits only. */
function whole(value: number): string {
  return string.format("%.0f", value);
}
