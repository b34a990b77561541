// Whom no policy of the app counts. Only admins may change it: such a change reaches every policy at once.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { appQuery } from "../../api/queries.ts";
import { useRights } from "../../parts/rights.ts";
import { Failed, Loading } from "../../parts/states.tsx";
import { lineOfKey } from "./exemption-lines.ts";
import { ExemptionsDialog } from "./exemptions-dialog.tsx";

export function AppExemptions({ app }: { app: string }) {
  const t = useTranslations("networks");
  const { isAdmin } = useRights(app);
  const { data, error, isPending, refetch } = useQuery(appQuery(app));
  const [isChanging, setIsChanging] = useState(false);
  if (isPending) return <Loading />;
  if (data === undefined) return <Failed error={error} again={() => void refetch()} />;
  const { cidrs = [], keys = [] } = data.settings.exempt ?? {};
  const isNobody = cidrs.length + keys.length === 0;
  return (
    <section className="card" aria-labelledby="app-exemptions">
      <h2 id="app-exemptions">{t("exemptTitle")}</h2>
      <p className="quiet">
        {isNobody ? t("exemptNone", { app }) : t(app === "default" ? "exemptMeansAll" : "exemptMeans")}
        {isAdmin ? null : ` ${t("exemptAdmin")}`}
      </p>
      {isNobody ? null : <pre>{[...cidrs, ...keys.map(lineOfKey)].join("\n")}</pre>}
      {isAdmin ? (
        <button type="button" onClick={() => setIsChanging(true)}>
          {t("exemptChange")}
        </button>
      ) : null}
      {isChanging ? (
        <ExemptionsDialog
          app={app}
          exempt={data.settings.exempt}
          etag={data.etag}
          onClose={() => setIsChanging(false)}
        />
      ) : null}
    </section>
  );
}
