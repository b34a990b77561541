// Asks before a consumer is deleted.

import { useTranslations } from "use-intl";
import { Confirmation } from "../../parts/dialog.tsx";
import { useTell } from "../../parts/notices.tsx";
import { visible } from "../../parts/visible.ts";
import { type Consumer, useConsumerChanges } from "./use-consumer-changes.ts";

export function DeleteConsumerDialog({
  app,
  consumer,
  onClose,
}: {
  app: string;
  consumer: Consumer;
  onClose: () => void;
}) {
  const t = useTranslations("consumers");
  const tell = useTell();
  const { put, remove } = useConsumerChanges(app);
  const { id, etag } = consumer;
  const act = async () => {
    await remove(id, etag);
    tell({ text: t("deleted", { id: visible(id) }), undo: () => put(id, consumer, undefined) });
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
