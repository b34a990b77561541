// Decisions as JSON and as durations.

package sluice

import (
	"encoding/json"
	"testing"
	"time"
)

func TestADecisionAsJSONHasTheFieldsOfTheCheckAPI(t *testing.T) {
	for sent, expected := range map[string]string{
		`{"policy":"api","allowed":false,"limit":7,"remaining":2,"retryAfter":null,"resetAfter":null}`:           `{"allowed":false,"policy":"api","limit":7,"remaining":2,"retryAfter":null,"resetAfter":null,"source":"gateway"}`,
		`{"policy":"api","allowed":true,"limit":7,"remaining":0,"retryAfter":0,"resetAfter":1,"delay":0.333333}`: `{"allowed":true,"policy":"api","limit":7,"remaining":0,"retryAfter":0,"resetAfter":1,"delay":0.333333,"source":"gateway"}`,
		`{"policy":"api","allowed":false,"reason":"banned"}`:                                                     `{"allowed":false,"policy":"api","reason":"banned","source":"gateway"}`,
	} {
		client := startGateway(t, result(sent)).client(t, Options{})
		decision, err := client.Check(background, "api", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(decision); string(got) != expected {
			t.Errorf("expected %s, got %s", expected, got)
		}
	}
}

func TestAReportAndAWaitHaveFiguresOfTheirOwn(t *testing.T) {
	reported := `{"policy":"api","allowed":true,"limit":7,"remaining":0,"retryAfter":0,"resetAfter":1,"debt":3}`
	decision, err := startGateway(t, result(reported)).client(t, Options{}).Report(background, "api", nil, Cost(10))
	if err != nil || decision.Debt != 3 || !decision.HasFigures() {
		t.Errorf("got %+v, %v", decision, err)
	}
	if got, _ := json.Marshal(decision); string(got) != `{"allowed":true,"policy":"api","limit":7,"remaining":0,"retryAfter":0,"resetAfter":1,"debt":3,"source":"gateway"}` {
		t.Errorf("got %s", got)
	}
	waited := `{"policy":"api","allowed":true,"limit":7,"remaining":0,"retryAfter":0,"resetAfter":1,"waited":0.007}`
	decision, err = startGateway(t, result(waited)).client(t, Options{}).Acquire(background, "api", nil, time.Second)
	if err != nil || decision.Waited != 7*time.Millisecond {
		t.Errorf("got %+v, %v", decision, err)
	}
	if got, _ := json.Marshal(decision); string(got) != `{"allowed":true,"policy":"api","limit":7,"remaining":0,"retryAfter":0,"resetAfter":1,"waited":0.007,"source":"gateway"}` {
		t.Errorf("got %s", got)
	}
}

func TestWaitingForNeverIsLong(t *testing.T) {
	client := startGateway(t, result(`{"policy":"api","allowed":false,"limit":7,"remaining":2,"retryAfter":null,"resetAfter":1e12}`)).client(t, Options{})
	decision, err := client.Check(background, "api", nil)
	if err != nil {
		t.Fatal(err)
	}
	// A time that is longer than a Duration holds is not the same as never.
	if decision.RetryAfter != Never || decision.ResetAfter == Never || decision.ResetAfter < 100*365*24*time.Hour {
		t.Errorf("got %+v", decision)
	}
	if !decision.HasFigures() {
		t.Error("a limit decided, and the decision has no figures")
	}
}
