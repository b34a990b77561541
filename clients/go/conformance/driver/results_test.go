// What a result looks like to the tests that control the driver.

package main

import (
	"encoding/json"
	"testing"

	sluice "sluice/client"
)

func TestAnErrorHasItsPlacesIfItNamesAny(t *testing.T) {
	refused := &sluice.Error{Code: "invalid-request", Status: 400, Detail: "A sentence."}
	expected := `{"error":{"code":"invalid-request","detail":"A sentence.","status":400}}`
	if got, _ := json.Marshal(errorOf(refused)); string(got) != expected {
		t.Errorf("expected %s, got %s", expected, got)
	}
	refused.Errors = []sluice.Problem{{Path: "key[1]", Expected: "text", Got: "7"}}
	expected = `{"error":{"code":"invalid-request","detail":"A sentence.","errors":[{"path":"key[1]","expected":"text","got":"7"}],"status":400}}`
	if got, _ := json.Marshal(errorOf(refused)); string(got) != expected {
		t.Errorf("expected %s, got %s", expected, got)
	}
}
