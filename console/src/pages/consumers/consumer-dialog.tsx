// Adds a consumer, or gives one another plan or other limits of its own, which are written as YAML.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { parse, stringify } from "yaml";
import { answerOf, api, type Schemas } from "../../api/client.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { useTell } from "../../parts/notices.tsx";
import { visible } from "../../parts/visible.ts";

/** How long the answer waits for gateways. */
const wait = "5s";
const example = "books:\n  - { name: daily, algorithm: fixed-window, quota: 5000, window: 1d }";

/** @param consumer undefined: a new one */
export function ConsumerDialog({
  app,
  consumer,
  onClose,
}: {
  app: string;
  consumer: Schemas["Consumer"] | undefined;
  onClose: () => void;
}) {
  const t = useTranslations("consumers");
  const tell = useTell();
  const cache = useQueryClient();
  const [id, setId] = useState(consumer?.id ?? "");
  const [plan, setPlan] = useState(consumer?.plan ?? "");
  const [original] = useState(() => (consumer?.overrides === undefined ? "" : stringify(consumer.overrides)));
  const [own, setOwn] = useState(original);
  const [fault, setFault] = useState<string>();
  const act = async () => {
    setFault(undefined);
    let overrides: unknown;
    try {
      overrides = parse(own) ?? undefined;
    } catch (failure) {
      setFault(failure instanceof Error ? failure.message : String(failure));
      return false;
    }
    const { applied } = await answerOf(
      api.PUT("/api/v1/apps/{app}/consumers/{consumer}", {
        params: { path: { app, consumer: id }, query: { wait } },
        body: { plan, ...(overrides === undefined ? {} : { overrides: overrides as Record<string, never> }) },
      }),
    );
    await cache.invalidateQueries({ queryKey: ["consumers", app] });
    tell({ text: t("stored", { id: visible(id), plan, have: applied?.acked ?? 0, of: applied?.gateways ?? 0 }) });
    return true;
  };
  return (
    <Confirmation
      title={consumer === undefined ? t("addTitle") : t("changeTitle", { id: visible(id) })}
      action={t("store")}
      isChanged={plan !== (consumer?.plan ?? "") || own !== original}
      act={act}
      onClose={onClose}
    >
      <p>{t("means")}</p>
      {consumer === undefined ? (
        <>
          <Field label={t("id")} help={t("idHelp")}>
            {(input) => <input {...input} value={id} spellCheck={false} onChange={(e) => setId(e.target.value)} />}
          </Field>
          <p className="quiet">{t("importHint")}</p>
        </>
      ) : null}
      <Field label={t("plan")} help={t("planHelp")}>
        {(input) => <input {...input} value={plan} spellCheck={false} onChange={(e) => setPlan(e.target.value)} />}
      </Field>
      <Field label={t("ownLimits")} help={t("ownLimitsHelp")} fault={fault}>
        {(input) => (
          <textarea
            {...input}
            className="code"
            rows={original === "" ? 4 : 10}
            spellCheck={false}
            placeholder={example}
            value={own}
            onChange={(e) => setOwn(e.target.value)}
          />
        )}
      </Field>
    </Confirmation>
  );
}
