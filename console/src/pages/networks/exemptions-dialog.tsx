// Changes whom no policy of the app counts.

import { useState } from "react";
import { useTranslations } from "use-intl";
import { Confirmation } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { useAppChange } from "../../parts/use-app-change.ts";
import { type Exempt, exemptOf, lineOfKey } from "./exemption-lines.ts";

export function ExemptionsDialog({
  app,
  exempt,
  etag,
  onClose,
}: {
  app: string;
  exempt: Exempt | null;
  etag: string;
  onClose: () => void;
}) {
  const t = useTranslations("networks");
  const change = useAppChange(app, etag);
  const [original] = useState(() => ({
    networks: (exempt?.cidrs ?? []).join("\n"),
    keys: (exempt?.keys ?? []).map(lineOfKey).join("\n"),
  }));
  const [networks, setNetworks] = useState(original.networks);
  const [keys, setKeys] = useState(original.keys);
  const act = () =>
    change({ exempt: exemptOf(networks, keys) }, { exempt }, (taken) => t("exemptStored", { app, ...taken }));
  return (
    <Confirmation
      title={t("exemptChangeTitle", { app })}
      action={t("store")}
      isChanged={networks !== original.networks || keys !== original.keys}
      act={act}
      onClose={onClose}
    >
      <p>{t(app === "default" ? "exemptMeansAll" : "exemptMeans")}</p>
      <Field label={t("exemptNetworks")} help={t("exemptNetworksHelp")}>
        {(input) => (
          <textarea
            {...input}
            className="code"
            rows={6}
            spellCheck={false}
            value={networks}
            onChange={(e) => setNetworks(e.target.value)}
          />
        )}
      </Field>
      <Field label={t("exemptKeys")} help={t("exemptKeysHelp")}>
        {(input) => (
          <textarea
            {...input}
            className="code"
            rows={4}
            spellCheck={false}
            value={keys}
            onChange={(e) => setKeys(e.target.value)}
          />
        )}
      </Field>
    </Confirmation>
  );
}
