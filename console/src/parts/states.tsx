// What a page shows while it has nothing to show: it loads, failed, is forbidden or empty. Each says what to do next.

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslations } from "use-intl";
import { RequestError } from "../api/client.ts";

export function Loading() {
  const t = useTranslations("states");
  return (
    <p className="state loading" role="status">
      {t("loading")}
    </p>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <div className="state">{children}</div>;
}

export function Failed({ error, again }: { error: unknown; again: () => void }) {
  const t = useTranslations("states");
  return (
    <div className="state" role="alert">
      <p>{t(causeOf(error))}</p>
      {error instanceof RequestError && error.problem !== undefined ? <p>{error.problem.detail}</p> : null}
      <button type="button" onClick={again}>
        {t("again")}
      </button>
    </div>
  );
}

export function NotFound() {
  const t = useTranslations("states");
  return (
    <main className="alone">
      <div className="state">
        <p>{t("notFound")}</p>
        <Link to="/overview">{t("toOverview")}</Link>
      </div>
    </main>
  );
}

export function Crashed() {
  const t = useTranslations("states");
  return (
    <main className="alone">
      <div className="state" role="alert">
        <p>{t("crashed")}</p>
        <button type="button" onClick={() => location.reload()}>
          {t("reload")}
        </button>
      </div>
    </main>
  );
}

function causeOf(error: unknown): "noAnswer" | "forbidden" | "missing" | "refused" | "failing" {
  if (!(error instanceof RequestError) || error.status === undefined) return "noAnswer";
  if (error.status === 403) return "forbidden";
  if (error.status === 404) return "missing";
  return error.status < 500 ? "refused" : "failing";
}
