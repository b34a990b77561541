// The form for a policy: what most policies need at once, and what few need when it is asked for.

import { useTranslations } from "use-intl";
import { modes } from "../policy-filter.ts";
import { Choice, type FormProps, Lines, Text, Units } from "./document-fields.tsx";
import { LimitList } from "./limit-fields.tsx";
import { MoreFields } from "./more-fields.tsx";
import { OnLimitFields } from "./on-limit-fields.tsx";
import { Plans, UsePlans } from "./plan-fields.tsx";

const missingKeys = ["skip", "deny", "shared"] as const;
const scopes = ["node", "cluster"] as const;
const consistencies = ["exact", "leased"] as const;

/** @param props.isNew whether the name may still be chosen */
export function PolicyForm({ draft, change, isNew }: FormProps & { isNew: boolean }) {
  const t = useTranslations("editor");
  const { document } = draft;
  const form = { draft, change };
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
        {document?.["plans"] === undefined ? (
          <>
            <LimitList {...form} at="limits" />
            <UsePlans {...form} />
          </>
        ) : (
          <Plans {...form} />
        )}
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
