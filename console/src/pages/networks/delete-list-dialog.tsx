// Asks before a list of networks is deleted.

import { useQueryClient } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import type { ListOfNetworks } from "../../api/queries.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { useTell } from "../../parts/notices.tsx";
import { deleteList, networksOf, putList } from "./stored-list.ts";

export function DeleteListDialog({
  app,
  stored: { name, etag },
  onClose,
}: {
  app: string;
  stored: ListOfNetworks;
  onClose: () => void;
}) {
  const t = useTranslations("networks");
  const tell = useTell();
  const cache = useQueryClient();
  const seen = () => cache.invalidateQueries({ queryKey: ["networks", app] });
  const act = async () => {
    const former = await networksOf(app, name);
    await deleteList(app, name, etag);
    await seen();
    const undo = async () => {
      await putList(app, name, former.join("\n"), undefined);
      await seen();
    };
    tell({ text: t("deleted", { name }), undo });
  };
  return (
    <Confirmation title={t("deleteTitle", { name })} action={t("delete")} destructive act={act} onClose={onClose}>
      <p>{t("deleteMeans")}</p>
    </Confirmation>
  );
}
