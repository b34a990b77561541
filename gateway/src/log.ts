// The log phase: what the request held is given back, when the client has its answer already.

import { forgetRedirect } from "./respond/over-limit.ts";
import { leaveWaiting } from "./respond/waiting.ts";
import { refundUndecided } from "./stores/charges.ts";
import { abandonPending } from "./stores/group-commit.ts";
import { releaseSlots } from "./stores/held-slots.ts";
import { chargeResponse } from "./stores/settlements.ts";

export function log(): void {
  releaseSlots();
  chargeResponse();
  leaveWaiting();
  abandonPending();
  refundUndecided();
  forgetRedirect();
}
