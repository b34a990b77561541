// What few policies need: headers that are matched, priority, apps that share it, who is exempt, other limits for some keys, and a schedule.

import { useTranslations } from "use-intl";
import { modes } from "../policy-filter.ts";
import { Choice, type FormProps, Lines, Text, Units, Written } from "./document-fields.tsx";
import type { Json } from "./draft.ts";
import {
  headersOf,
  keysOf,
  secretOf,
  textOfHeaders,
  textOfKeys,
  textOfSecret,
  textOfWindows,
  windowsOf,
} from "./written.ts";

export function MoreFields({ draft, change }: FormProps) {
  const t = useTranslations("editor");
  const form = { draft, change };
  const { document } = draft;
  const overrides = Array.isArray(document?.["overrides"]) ? (document["overrides"] as Json[]) : [];
  const limits = Array.isArray(document?.["limits"]) ? (document["limits"] as Json[]) : [];
  const isUsed = ["overrides", "exempt", "schedule", "priority", "sharedWith"].some(
    (name) => document?.[name] !== undefined,
  );
  const hasKey = Array.isArray(document?.["key"]) && document["key"].length > 0;
  return (
    <details open={isUsed}>
      <summary>{t("more")}</summary>
      <div className="fields">
        <Written {...form} at="match.headers" word="headers" textOf={textOfHeaders} read={headersOf} />
        <Units {...form} at="priority" />
        <Lines {...form} at="sharedWith" />
        <Lines {...form} at="exempt.cidrs" word="exemptAddresses" />
        {hasKey ? <Written {...form} at="exempt.keys" word="exemptKeys" textOf={textOfKeys} read={keysOf} /> : null}
        {hasKey ? <Written {...form} at="secret" textOf={textOfSecret} read={secretOf} /> : null}
        <Text {...form} at="schedule.timezone" />
        <Written {...form} at="schedule.windows" word="windows" textOf={textOfWindows} read={windowsOf} />
      </div>
      {overrides.map((_, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: an override is its place in the list
        <div className="limit" key={i}>
          <div className="fields">
            <Lines {...form} at={`overrides[${i}].key`} word="overrideKey" />
            <Choice {...form} at={`overrides[${i}].mode`} word="overrideMode" choices={modes} otherwise="enforce" />
            {limits.map((limit) => (
              <OverriddenQuota key={String(limit?.["name"])} {...form} override={i} limit={limit} />
            ))}
          </div>
          <button
            type="button"
            onClick={() => {
              const others = overrides.filter((_one, n) => n !== i);
              change(["overrides"], others.length === 0 ? undefined : others);
            }}
          >
            {t("removeOverride", { number: i + 1 })}
          </button>
        </div>
      ))}
      {hasKey ? (
        <button
          type="button"
          onClick={() => {
            const parts = Array.isArray(document?.["key"]) ? document["key"] : [];
            const key = parts.map(() => "");
            change(["overrides"], [...overrides, { key, limits: limits.map((limit) => ({ ...limit })) }]);
          }}
        >
          {t("addOverride")}
        </button>
      ) : null}
    </details>
  );
}

/** The override's own limit of the same name, if it has one. */
function OverriddenQuota({ draft, change, override, limit }: FormProps & { override: number; limit: Json }) {
  const overrides = draft.document?.["overrides"] as Json[];
  const own = Array.isArray(overrides[override]?.["limits"]) ? (overrides[override]["limits"] as Json[]) : [];
  const at = own.findIndex((one) => (one?.["name"] ?? "default") === (limit?.["name"] ?? "default"));
  return at < 0 ? null : <Units draft={draft} change={change} at={`overrides[${override}].limits[${at}].quota`} />;
}
