// Which hosts and paths the policies of an app may match. Only admins may change it. The app `default` has all of them.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { appQuery } from "../../api/queries.ts";
import { useRights } from "../../parts/rights.ts";
import { Failed, Loading } from "../../parts/states.tsx";
import { RealmDialog } from "./realm-dialog.tsx";

export function AppRealm({ app }: { app: string }) {
  const t = useTranslations("realm");
  const { isAdmin } = useRights(app);
  const { data, error, isPending, refetch } = useQuery(appQuery(app));
  const [isChanging, setIsChanging] = useState(false);
  if (isPending) return <Loading />;
  if (data === undefined) return <Failed error={error} again={() => void refetch()} />;
  const { realm, realmState } = data.settings;
  if (realmState === "all") return null;
  const { hosts = [], paths = [], redirects = [] } = realm ?? {};
  return (
    <section className="card" aria-label={t("title")}>
      {realmState === "set" ? (
        <p>
          {t("is", {
            hosts: hosts.length === 0 ? t("anyHost") : hosts.join(" "),
            paths: paths.length === 0 ? t("anyPath") : paths.join(" "),
          })}{" "}
          {redirects.length === 0 ? null : t("redirectsTo", { redirects: redirects.join(" ") })}
        </p>
      ) : (
        <p className={realmState === "none" ? "bad" : undefined}>
          {t(realmState === "none" ? "missing" : "legacy", { app })}
        </p>
      )}
      {isAdmin ? (
        <div>
          <button type="button" onClick={() => setIsChanging(true)}>
            {t("change")}
          </button>
        </div>
      ) : (
        <p className="quiet">{t("admin")}</p>
      )}
      {isChanging ? (
        <RealmDialog
          app={app}
          realm={realm}
          // What an app from before there were realms had cannot be given again.
          mayUndo={realmState !== "legacy"}
          etag={data.etag}
          onClose={() => setIsChanging(false)}
        />
      ) : null}
    </section>
  );
}
