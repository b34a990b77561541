// Results: a decision, of a hold also whether there is one, or an error, with its places if it has any.

package main

import (
	"encoding/json"
	"errors"

	sluice "sluice/client"
)

type heldResult struct {
	decision sluice.Decision
	holds    bool
}

func (h heldResult) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(h.decision)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	fields["holds"], err = json.Marshal(h.holds)
	if err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

func resultOf[T any](decision T, err error) any {
	if err != nil {
		return errorOf(err)
	}
	return decision
}

func errorOf(err error) any {
	var refused *sluice.Error
	if errors.As(err, &refused) {
		fields := map[string]any{"code": refused.Code, "status": refused.Status, "detail": refused.Detail}
		if len(refused.Errors) > 0 {
			fields["errors"] = refused.Errors
		}
		return map[string]any{"error": fields}
	}
	return map[string]any{"error": map[string]any{"message": err.Error()}}
}
