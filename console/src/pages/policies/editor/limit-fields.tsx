// The limits of a policy, or of one of its plans.

import { calendarUnits } from "@sluice/limiter/document/calendar.ts";
import { algorithms } from "@sluice/limiter/document/policy-shape.ts";
import { useTranslations } from "use-intl";
import { Choice, type FormProps, NumberOrText, stepsOf, Text, Units } from "./document-fields.tsx";
import { type Json, valueAt } from "./draft.ts";

/** @param props.at the place of the list, like "limits" or "plans.free" */
export function LimitList({ draft, change, at }: FormProps & { at: string }) {
  const t = useTranslations("editor");
  const path = stepsOf(at);
  const stored = draft.document === undefined ? undefined : valueAt(draft.document, path);
  const limits: readonly Json[] = Array.isArray(stored) ? stored : [];
  const added = { name: `limit-${limits.length + 1}`, algorithm: "token-bucket", quota: 10, window: "1s" };
  return (
    <>
      {limits.map((limit, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a limit is its place in the list
        <div className="limit" key={i}>
          <LimitFields draft={draft} change={change} at={`${at}[${i}]`} limit={limit} isOnly={limits.length === 1} />
          {limits.length === 1 ? null : (
            <button
              type="button"
              onClick={() => {
                change(
                  path,
                  limits.filter((_, n) => n !== i),
                );
              }}
            >
              {t("removeLimit", { number: i + 1 })}
            </button>
          )}
        </div>
      ))}
      <button type="button" onClick={() => change(path, [...limits, added])}>
        {t("addLimit")}
      </button>
    </>
  );
}

function LimitFields({ draft, change, at, limit, isOnly }: FormProps & { at: string; limit: Json; isOnly: boolean }) {
  const form = { draft, change };
  const algorithm = limit?.["algorithm"];
  const hasBurst = algorithm === "token-bucket" || algorithm === "leaky-bucket";
  return (
    <div className="fields">
      <Choice {...form} at={`${at}.algorithm`} choices={algorithms} />
      <Units {...form} at={`${at}.quota`} />
      {algorithm === "concurrency" ? (
        <Text {...form} at={`${at}.ttl`} />
      ) : (
        <Text {...form} at={`${at}.window`} required />
      )}
      {mayHaveTimezone(limit) ? <Text {...form} at={`${at}.timezone`} word="windowTimezone" /> : null}
      {mayHaveAnchor(limit) ? <NumberOrText {...form} at={`${at}.anchor`} /> : null}
      {hasBurst ? <Units {...form} at={`${at}.burst`} /> : null}
      {algorithm === "token-bucket" ? <Units {...form} at={`${at}.initial`} /> : null}
      {algorithm === "token-bucket" ? <Text {...form} at={`${at}.warmUp`} /> : null}
      {isOnly ? null : <Text {...form} at={`${at}.name`} />}
    </div>
  );
}

/** What is there can be emptied, also where it is refused because the window was changed. */
function mayHaveTimezone(limit: Json): boolean {
  const window = limit?.["window"];
  return (typeof window === "string" && calendarUnits.includes(window)) || limit?.["timezone"] !== undefined;
}

/** The other windows of the calendar begin with the first moment of their hour or day. */
function mayHaveAnchor(limit: Json): boolean {
  const window = limit?.["window"];
  return window === "week" || window === "month" || window === "year" || limit?.["anchor"] !== undefined;
}
