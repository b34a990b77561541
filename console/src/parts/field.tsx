// A labelled field of a form, with what helps to fill it in and what is wrong with it.

import { type ReactNode, useId } from "react";

/** What the field's input needs, so that its label, help and fault are read with it. */
export interface FieldInput {
  readonly id: string;
  readonly "aria-describedby": string;
  readonly "aria-invalid": boolean;
}

export function Field({
  label,
  help,
  fault,
  children,
}: {
  label: string;
  help?: string | undefined;
  /** Absent: nothing is wrong. */
  fault?: string | undefined;
  children: (input: FieldInput) => ReactNode;
}) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": `${id}-help`, "aria-invalid": fault !== undefined })}
      <p id={`${id}-help`}>
        {fault === undefined ? null : <span className="fault">{fault} </span>}
        {help === undefined ? null : <span className="quiet">{help}</span>}
      </p>
    </div>
  );
}
