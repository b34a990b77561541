// What a client would see of a policy: the response to a request that is admitted, and to one that is refused.

import { validatePolicy } from "@sluice/limiter/document/validate.ts";
import { useTranslations } from "use-intl";
import { responseTo } from "../../../forecast/headers.ts";
import { type Decisions, outcomes } from "../../../forecast/simulate.ts";
import type { Forecasted } from "./use-forecast.ts";

export function ClientView({ forecasted: { request, result } }: { forecasted: Forecasted }) {
  const t = useTranslations("forecast");
  const { policy } = validatePolicy(request.draft);
  const decisions = result.draft?.decisions;
  if (policy === undefined || decisions === undefined) return null;
  return (
    <div className="client-view">
      {(["admitted", "refused"] as const).map((outcome) => {
        const index = firstOf(decisions, outcome);
        if (index === undefined) return null;
        const values = request.offer.keys[result.keyOf[index] as number]?.key.values ?? [];
        // Gateways send the headers of the standard unless SLUICE_HEADERS says otherwise.
        const nowMs = (result.atUs[index] as number) / 1_000;
        const response = responseTo(policy, values, decisions, index, nowMs, "ietf");
        return (
          <section key={outcome} aria-label={t(`sees.${outcome}`)}>
            <h3>{t(`sees.${outcome}`)}</h3>
            {response === undefined ? (
              <p className="quiet">{t("elsewhere")}</p>
            ) : (
              // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
              <pre tabIndex={0}>{textOf(response, t("served"))}</pre>
            )}
          </section>
        );
      })}
    </div>
  );
}

function firstOf({ outcome }: Decisions, wanted: (typeof outcomes)[number]): number | undefined {
  const index = outcome.indexOf(outcomes.indexOf(wanted));
  return index < 0 ? undefined : index;
}

function textOf({ status, headers, body }: NonNullable<ReturnType<typeof responseTo>>, served: string): string {
  const lines = headers.flatMap(({ name, value }) => [value].flat().map((one) => `${name}: ${one}`));
  return [
    status === undefined ? served : `HTTP/1.1 ${status}`,
    ...lines,
    ...(body === undefined ? [] : ["", body.trimEnd()]),
  ].join("\n");
}
