// Chooses the app that a page shows. The choice is in the page's URL.

import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { useTranslations } from "use-intl";
import { appsQuery } from "../api/queries.ts";

/** @returns the app that is asked for, or the first one; undefined while apps are not known, or if there is none */
export function useChosenApp(asked: string | undefined): string | undefined {
  const { data: apps } = useQuery(appsQuery);
  return asked ?? apps?.[0]?.name;
}

export function AppChoice({ app, onChoose }: { app: string | undefined; onChoose: (app: string) => void }) {
  const t = useTranslations("apps");
  const id = useId();
  const { data: apps = [] } = useQuery(appsQuery);
  const names = apps.map(({ name }) => name);
  if (app !== undefined && !names.includes(app)) names.push(app);
  return (
    <label className="choice" htmlFor={id}>
      {t("app")}
      <select id={id} value={app ?? ""} onChange={(e) => onChoose(e.target.value)}>
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}
