// Tells gateways how many there are: while Redis is away, their shares of a limit depend on it.

import { protocolVersion } from "@sluice/limiter/protocol/push-messages.ts";
import type { Fleet } from "./fleet.ts";
import type { GatewayLink } from "./gateway-link.ts";

/**
 * A gateway that changes its control plane, or whose worker with the socket ends, is away for a moment. If others took its share
 * of a limit meanwhile, all would allow more than the limit. So the largest number within this time is the one that is reported.
 */
const fewerAfterMs = 3_000;
/** The gateways that join or leave within this time are counted together: after a restart, thousands come at once. */
const countEveryMs = 100;
/** Gateways are told for so long in one turn of the event loop. */
const tellingInTurnMs = 3;
/** And then others have the thread: to tell three thousand takes half a second. */
const pauseMs = 30;

/**
 * Reports the number of gateways to a new gateway at once, to every gateway soon after it has grown, and when it has been smaller for three
 * seconds.
 *
 * @returns stops it
 */
export function announceFleet(fleet: Fleet): () => void {
  let reported = 0;
  /** The numbers of the last seconds, and when each ended. Later ones are smaller. */
  let former: { readonly gateways: number; readonly endedAtMs: number }[] = [];
  let present = 0;
  let countedAtMs = Number.NEGATIVE_INFINITY;
  let isCountPlanned = false;
  let fewerTimer: NodeJS.Timeout | undefined;
  let countTimer: NodeJS.Timeout | undefined;
  let tellTimer: NodeJS.Timeout | undefined;
  const told = new WeakMap<GatewayLink, number>();
  /** Those who wait longest are first, also if the number changes meanwhile. */
  const untold = new Set<GatewayLink>();
  const tell = (link: GatewayLink, gateways: number) => {
    if (told.get(link) === gateways) return;
    told.set(link, gateways);
    link.send({ type: "fleet", gateways, takesActivity: true, protocol: protocolVersion });
  };
  const tellSome = () => {
    tellTimer = undefined;
    const beganAtMs = performance.now();
    for (const link of untold) {
      if (performance.now() - beganAtMs >= tellingInTurnMs) {
        tellTimer = setTimeout(tellSome, pauseMs).unref();
        return;
      }
      untold.delete(link);
      tell(link, reported);
    }
  };
  const reportLargest = () => {
    const nowMs = performance.now();
    former = former.filter(({ gateways, endedAtMs }) => gateways > present && nowMs - endedAtMs < fewerAfterMs);
    clearTimeout(fewerTimer);
    const [largest] = former;
    if (largest !== undefined) {
      fewerTimer = setTimeout(reportLargest, largest.endedAtMs + fewerAfterMs - nowMs).unref();
    }
    const gateways = largest?.gateways ?? present;
    if (gateways === reported) return;
    reported = gateways;
    for (const link of fleet.links()) untold.add(link);
    if (tellTimer === undefined) tellSome();
  };
  const count = () => {
    isCountPlanned = false;
    countedAtMs = performance.now();
    const gateways = fleet.connectedCount;
    if (gateways < present) former.push({ gateways: present, endedAtMs: countedAtMs });
    present = gateways;
    reportLargest();
  };
  fleet.on("members", (joined) => {
    if (joined !== undefined) tell(joined, Math.max(reported, fleet.connectedCount));
    if (isCountPlanned) return;
    isCountPlanned = true;
    countTimer = setTimeout(count, Math.max(0, countedAtMs + countEveryMs - performance.now())).unref();
  });
  return () => {
    for (const timer of [fewerTimer, countTimer, tellTimer]) clearTimeout(timer);
  };
}
