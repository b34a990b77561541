// The form for a policy: what most policies need at once, and what few need when it is asked for.

import { calendarUnits } from "@sluice/limiter/document/calendar.ts";
import { algorithms } from "@sluice/limiter/document/policy-shape.ts";
import { useTranslations } from "use-intl";
import { modes } from "../policy-filter.ts";
import { Choice, type FormProps, Lines, NumberOrText, Text, Units } from "./document-fields.tsx";
import type { Json } from "./draft.ts";
import { MoreFields } from "./more-fields.tsx";
import { OnLimitFields } from "./on-limit-fields.tsx";

const missingKeys = ["skip", "deny", "shared"] as const;
const scopes = ["node", "cluster"] as const;
const consistencies = ["exact", "leased"] as const;

/** @param props.isNew whether the name may still be chosen */
export function PolicyForm({ draft, change, isNew }: FormProps & { isNew: boolean }) {
  const t = useTranslations("editor");
  const { document } = draft;
  const form = { draft, change };
  const limits = Array.isArray(document?.["limits"]) ? document["limits"] : [];
  return (
    <>
      <fieldset>
        <legend>{t("what")}</legend>
        <div className="fields">
          {isNew ? <Text {...form} at="name" required /> : null}
          <Text {...form} at="description" />
          <Choice {...form} at="mode" choices={modes} otherwise="enforce" />
        </div>
      </fieldset>
      <fieldset>
        <legend>{t("which")}</legend>
        <div className="fields">
          <Lines {...form} at="match.paths" />
          <Lines {...form} at="match.hosts" />
          <Lines {...form} at="match.methods" />
        </div>
      </fieldset>
      <fieldset>
        <legend>{t("whose")}</legend>
        <div className="fields">
          <Lines {...form} at="key" />
          <Choice {...form} at="onMissingKey" choices={missingKeys} otherwise="skip" />
        </div>
      </fieldset>
      <fieldset>
        <legend>{t("howMany")}</legend>
        {limits.map((limit: Json, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a limit is its place in the list
          <LimitFields key={i} {...form} index={i} limit={limit} isOnly={limits.length === 1} />
        ))}
        <button
          type="button"
          onClick={() =>
            change(
              ["limits"],
              [
                ...limits,
                { name: `limit-${limits.length + 1}`, ...{ algorithm: "token-bucket", quota: 10, window: "1s" } },
              ],
            )
          }
        >
          {t("addLimit")}
        </button>
      </fieldset>
      <fieldset>
        <legend>{t("where")}</legend>
        <div className="fields">
          <Choice {...form} at="scope" choices={scopes} otherwise="node" />
          {document?.["scope"] === "cluster" ? (
            <Choice {...form} at="consistency" choices={consistencies} otherwise="exact" />
          ) : null}
          <Units {...form} at="cost" />
        </div>
      </fieldset>
      <OnLimitFields {...form} />
      <MoreFields {...form} />
    </>
  );
}

function LimitFields({
  draft,
  change,
  index,
  limit,
  isOnly,
}: FormProps & { index: number; limit: Json; isOnly: boolean }) {
  const t = useTranslations("editor");
  const form = { draft, change };
  const algorithm = limit?.["algorithm"];
  const at = `limits[${index}]`;
  const hasBurst = algorithm === "token-bucket" || algorithm === "leaky-bucket";
  return (
    <div className="limit">
      <div className="fields">
        <Choice {...form} at={`${at}.algorithm`} choices={algorithms} />
        <Units {...form} at={`${at}.quota`} />
        {algorithm === "concurrency" ? (
          <Text {...form} at={`${at}.ttl`} />
        ) : (
          <Text {...form} at={`${at}.window`} required />
        )}
        {isCalendar(limit?.["window"]) ? <Text {...form} at={`${at}.timezone`} word="windowTimezone" /> : null}
        {hasAnchor(limit?.["window"]) ? <NumberOrText {...form} at={`${at}.anchor`} /> : null}
        {hasBurst ? <Units {...form} at={`${at}.burst`} /> : null}
        {isOnly ? null : <Text {...form} at={`${at}.name`} />}
      </div>
      {isOnly ? null : (
        <button
          type="button"
          onClick={() => {
            const limits = draft.document?.["limits"] as unknown[];
            change(
              ["limits"],
              limits.filter((_, i) => i !== index),
            );
          }}
        >
          {t("removeLimit", { number: index + 1 })}
        </button>
      )}
    </div>
  );
}

function isCalendar(window: unknown): boolean {
  return typeof window === "string" && calendarUnits.includes(window);
}

/** The other windows of the calendar begin with the first moment of their hour or day. */
function hasAnchor(window: unknown): boolean {
  return window === "week" || window === "month" || window === "year";
}
