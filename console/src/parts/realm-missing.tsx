// Apps without a realm: gateways apply their policies to no request of a client, and only decide by them what the check API is asked.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { appsQuery } from "../api/queries.ts";
import { useRights } from "./rights.ts";

/** @returns false also while apps are not known */
export function useHasNoRealm(app: string | undefined): boolean {
  const { data: apps = [] } = useQuery(appsQuery);
  return apps.some(({ name, realmState }) => name === app && realmState === "none");
}

/** Shows nothing for an app whose policies decide requests. */
export function RealmMissing({ app }: { app: string }) {
  const t = useTranslations("realm");
  const { isAdmin } = useRights(app);
  if (!useHasNoRealm(app)) return null;
  return (
    <p className="bad">
      {t("missing", { app })}{" "}
      <Link to="/policies" search={{ app }}>
        {t(isAdmin ? "set" : "see")}
      </Link>
    </p>
  );
}
