// Asks how many units a key gets back, and of which limit.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import type { PolicyTerms } from "../../api/policy-terms.ts";
import { counterQuery } from "../../api/queries.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { useTell } from "../../parts/notices.tsx";

export function TopUpDialog({
  app,
  policy: { name: policy, limits },
  asked,
  onClose,
}: {
  app: string;
  policy: PolicyTerms;
  asked: readonly string[];
  onClose: () => void;
}) {
  const t = useTranslations("keys");
  const tell = useTell();
  const cache = useQueryClient();
  const [limit, setLimit] = useState("");
  const [units, setUnits] = useState(String(limits[0]?.quota ?? 1));
  const act = async () => {
    const counter = await answerOf(
      api.POST("/api/v1/apps/{app}/counters", {
        params: { path: { app }, query: { literal: true } },
        body: { policy, key: [...asked], units: Number(units), ...(limit === "" ? {} : { limit }) },
      }),
    );
    cache.setQueryData(counterQuery(app, policy, asked).queryKey, counter);
    tell({ text: t("wasToppedUp") });
  };
  return (
    <Confirmation title={t("topUpTitle")} action={t("topUp")} act={act} onClose={onClose}>
      <p>{t("topUpMeans")}</p>
      <Field label={t("limit")}>
        {(input) => (
          <select {...input} value={limit} onChange={(e) => setLimit(e.target.value)}>
            <option value="">{t("everyLimit")}</option>
            {limits.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
      </Field>
      <Field label={t("units")}>
        {(input) => <input {...input} type="number" min={1} value={units} onChange={(e) => setUnits(e.target.value)} />}
      </Field>
    </Confirmation>
  );
}
