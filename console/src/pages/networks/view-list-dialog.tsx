// Shows a list of networks, finds those that an address is in, and hands the list out as a file.

import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { networkListQuery } from "../../api/queries.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { Failed, Loading } from "../../parts/states.tsx";
import { findNetworks } from "./find-networks.ts";

/** More are in the file. */
const mostShown = 200;

export function ViewListDialog({ app, name, onClose }: { app: string; name: string; onClose: () => void }) {
  const t = useTranslations("networks");
  const { data: networks, error, isPending, refetch } = useQuery(networkListQuery(app, name));
  return (
    <Dialog title={`@${name}`} onClose={onClose}>
      {isPending ? <Loading /> : null}
      {networks === undefined ? null : <Found networks={networks} />}
      {networks === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      <div className="actions">
        {networks === undefined ? null : (
          <button type="button" onClick={() => save(`${name}.txt`, networks)}>
            {t("download")}
          </button>
        )}
        <button type="button" onClick={onClose}>
          {t("close")}
        </button>
      </div>
    </Dialog>
  );
}

function Found({ networks }: { networks: readonly string[] }) {
  const t = useTranslations("networks");
  const [sought, setSought] = useState("");
  const settled = useDeferredValue(sought);
  const found = useMemo(() => findNetworks(networks, settled), [networks, settled]);
  return (
    <>
      <Field label={t("find")} help={t("findHelp")}>
        {(input) => (
          <input
            {...input}
            type="search"
            value={sought}
            spellCheck={false}
            onChange={(e) => setSought(e.target.value)}
          />
        )}
      </Field>
      <p aria-live="polite">{t("found", { found: found.length, count: networks.length })}</p>
      {found.length === 0 ? null : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        <pre className="networks" tabIndex={0}>
          {found.slice(0, mostShown).join("\n")}
        </pre>
      )}
      {found.length > mostShown ? <p className="quiet">{t("more", { count: found.length - mostShown })}</p> : null}
    </>
  );
}

function save(fileName: string, networks: readonly string[]): void {
  const url = URL.createObjectURL(new Blob([`${networks.join("\n")}\n`], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName;
  link.click();
  URL.revokeObjectURL(url);
}
