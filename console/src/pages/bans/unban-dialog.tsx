// Asks before a ban is ended.

import { useQueryClient } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { useTell } from "../../parts/notices.tsx";
import { type Ban, bannedOf } from "./bans-of-key.ts";

const wait = "5s";

export function UnbanDialog({ app, ban, onClose }: { app: string; ban: Ban; onClose: () => void }) {
  const t = useTranslations("bans");
  const tell = useTell();
  const cache = useQueryClient();
  const { id, cidr, policy, key, keyPattern, until, reason } = ban;
  const what = bannedOf(ban);
  const seen = () => cache.invalidateQueries({ queryKey: ["bans", app] });
  const act = async () => {
    await answerOf(
      api.DELETE("/api/v1/apps/{app}/bans/{ban}", { params: { path: { app, ban: id }, query: { wait } } }),
    );
    await seen();
    const undo = async () => {
      // What is undefined is not sent.
      const body = { cidr, policy, key, keyPattern, until, reason } as { until: string };
      await answerOf(api.POST("/api/v1/apps/{app}/bans", { params: { path: { app }, query: { wait } }, body }));
      await seen();
    };
    tell({ text: t("unbanned", { what }), undo });
  };
  return (
    <Confirmation title={t("unbanTitle", { what })} action={t("unban")} destructive act={act} onClose={onClose}>
      <p>{t("unbanMeans")}</p>
    </Confirmation>
  );
}
