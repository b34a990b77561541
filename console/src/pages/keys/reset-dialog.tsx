// Asks before a key's counter is reset.

import { useQueryClient } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import { counterQuery } from "../../api/queries.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { useTell } from "../../parts/notices.tsx";

export function ResetDialog({
  app,
  policy,
  asked,
  onClose,
}: {
  app: string;
  policy: string;
  asked: readonly string[];
  onClose: () => void;
}) {
  const t = useTranslations("keys");
  const tell = useTell();
  const cache = useQueryClient();
  const act = async () => {
    const counter = await answerOf(
      api.DELETE("/api/v1/apps/{app}/counters", {
        params: { path: { app }, query: { policy, key: [JSON.stringify(asked)], literal: true } },
      }),
    );
    cache.setQueryData(counterQuery(app, policy, asked).queryKey, counter);
    tell({ text: t("wasReset") });
  };
  return (
    <Confirmation title={t("resetTitle")} action={t("reset")} destructive act={act} onClose={onClose}>
      <p>{t("resetMeans")}</p>
    </Confirmation>
  );
}
