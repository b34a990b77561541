// Asks before a consumer is deleted.

import { useQueryClient } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { answerOf, api, type Schemas } from "../../api/client.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { useTell } from "../../parts/notices.tsx";
import { visible } from "../../parts/visible.ts";

const wait = "5s";

export function DeleteConsumerDialog({
  app,
  consumer: { id },
  onClose,
}: {
  app: string;
  consumer: Schemas["Consumer"];
  onClose: () => void;
}) {
  const t = useTranslations("consumers");
  const tell = useTell();
  const cache = useQueryClient();
  const act = async () => {
    await answerOf(
      api.DELETE("/api/v1/apps/{app}/consumers/{consumer}", {
        params: { path: { app, consumer: id }, query: { wait } },
      }),
    );
    await cache.invalidateQueries({ queryKey: ["consumers", app] });
    tell({ text: t("deleted", { id: visible(id) }) });
  };
  return (
    <Confirmation
      title={t("deleteTitle", { id: visible(id) })}
      action={t("delete")}
      destructive
      act={act}
      onClose={onClose}
    >
      <p>{t("deleteMeans")}</p>
    </Confirmation>
  );
}
