// What a request over the limit gets.

import { useTranslations } from "use-intl";
import { templateOf } from "../../../api/policy-terms.ts";
import { Choice, type FormProps, Lines, Text, Units } from "./document-fields.tsx";
import { valueAt } from "./draft.ts";

const actions = ["reject", "delay", "degrade", "tag"] as const;

export function OnLimitFields(form: FormProps) {
  const t = useTranslations("editor");
  const { document } = form.draft;
  const onLimit = document?.["onLimit"];
  const action = document === undefined ? undefined : (valueAt(document, ["onLimit", "action"]) ?? "reject");
  return (
    <fieldset>
      <legend>{t("overLimit")}</legend>
      <div className="fields">
        {templateOf(onLimit) === undefined ? (
          <Choice {...form} at="onLimit.action" choices={actions} otherwise="reject" />
        ) : (
          <Text {...form} at="onLimit.template" word="template" />
        )}
        {templateOf(onLimit) !== undefined || action !== "reject" ? null : (
          <>
            <Units {...form} at="onLimit.status" />
            <Text {...form} at="onLimit.body" />
            <Lines {...form} at="onLimit.headers" word="responseHeaders" />
          </>
        )}
        {action === "delay" ? <Text {...form} at="onLimit.maxDelay" /> : null}
        {action === "degrade" ? <Text {...form} at="onLimit.uri" /> : null}
        {action === "tag" || action === "degrade" ? <Text {...form} at="onLimit.header" /> : null}
      </div>
    </fieldset>
  );
}
