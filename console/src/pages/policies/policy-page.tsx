// One policy: its document.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { policyQuery } from "../../api/queries.ts";
import { Failed, Loading } from "../../parts/states.tsx";

const route = getRouteApi("/shell/policies/$app/$policy");

export function PolicyPage() {
  const t = useTranslations("policy");
  const { app, policy } = route.useParams();
  const { data, error, isPending, refetch } = useQuery(policyQuery(app, policy));
  return (
    <>
      <p>
        <Link to="/policies" search={{ app }}>
          {t("back", { app })}
        </Link>
      </p>
      <h1>{policy}</h1>
      {isPending ? <Loading /> : null}
      {data === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {data === undefined ? null : (
        <section className="card" aria-label={t("document")}>
          <h2>{t("document")}</h2>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
          <pre tabIndex={0}>{JSON.stringify(data.document, undefined, 2)}</pre>
        </section>
      )}
    </>
  );
}
