// Reads the gateway's answers strictly: whatever has not the shape of an answer is a failure, so that nobody takes it for a decision.

package sluice

import (
	"encoding/json"
	"math"
	"time"
)

// figure tells a number from null and from a field that is absent.
type figure struct {
	heard  bool
	isNull bool
	value  float64
}

func (f *figure) UnmarshalJSON(text []byte) error {
	f.heard = true
	if string(text) == "null" {
		f.isNull = true
		return nil
	}
	return json.Unmarshal(text, &f.value)
}

type wireResult struct {
	Policy     *string `json:"policy"`
	Allowed    *bool   `json:"allowed"`
	Limit      figure  `json:"limit"`
	Remaining  figure  `json:"remaining"`
	RetryAfter figure  `json:"retryAfter"`
	ResetAfter figure  `json:"resetAfter"`
	Delay      figure  `json:"delay"`
	Waited     figure  `json:"waited"`
	Debt       figure  `json:"debt"`
	Reason     string  `json:"reason"`
}

type wireHold struct {
	wireResult
	Hold string  `json:"hold"`
	TTL  float64 `json:"ttl"`
}

// readAnswer returns whether all are allowed, and a decision for each policy that was asked.
func readAnswer(body []byte, policies []string) (bool, []Decision, *failure) {
	var answer struct {
		Allowed *bool        `json:"allowed"`
		Results []wireResult `json:"results"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return false, nil, failed("The gateway's answer cannot be read: %v.", err)
	}
	if answer.Allowed == nil {
		return false, nil, failed(`The gateway's answer has no "allowed" that is true or false.`)
	}
	if len(answer.Results) != len(policies) {
		return false, nil, failed("The gateway's answer has %d results, and %d were asked for.", len(answer.Results), len(policies))
	}
	decisions := make([]Decision, len(policies))
	for i := range answer.Results {
		decision, failure := answer.Results[i].decision(policies[i])
		if failure != nil {
			return false, nil, failure
		}
		decisions[i] = decision
	}
	return *answer.Allowed, decisions, nil
}

// readHoldAnswer returns also the text and the ttl of the hold, which are there if it is allowed.
func readHoldAnswer(body []byte, policy string) (Decision, string, time.Duration, *failure) {
	var answer wireHold
	if err := json.Unmarshal(body, &answer); err != nil {
		return Decision{}, "", 0, failed("The gateway's answer cannot be read: %v.", err)
	}
	decision, failure := answer.decision(policy)
	if failure != nil {
		return Decision{}, "", 0, failure
	}
	ttl := durationOf(answer.TTL)
	if decision.Allowed && (answer.Hold == "" || ttl <= 0) {
		return Decision{}, "", 0, failed(`The gateway's answer is allowed, and has no "hold" or no "ttl" above 0.`)
	}
	return decision, answer.Hold, ttl, nil
}

// readRenewal returns the new ttl, or that nothing is held any more.
func readRenewal(body []byte) (ttl time.Duration, isLost bool, failure *failure) {
	var answer struct {
		Renewed *bool   `json:"renewed"`
		TTL     float64 `json:"ttl"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, false, failed("The gateway's answer cannot be read: %v.", err)
	}
	if answer.Renewed == nil {
		return 0, false, failed(`The gateway's answer has no "renewed" that is true or false.`)
	}
	if !*answer.Renewed {
		return 0, true, nil
	}
	ttl = durationOf(answer.TTL)
	if ttl <= 0 {
		return 0, false, failed(`The gateway's answer is renewed, and has no "ttl" above 0.`)
	}
	return ttl, false, nil
}

// readRelease wants to hear whether something was released: a proxy's page would leave the slots held.
func readRelease(body []byte) *failure {
	var answer struct {
		Released *bool `json:"released"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return failed("The gateway's answer cannot be read: %v.", err)
	}
	if answer.Released == nil {
		return failed(`The gateway's answer has no "released" that is true or false.`)
	}
	return nil
}

func (r *wireResult) decision(asked string) (Decision, *failure) {
	if r.Allowed == nil {
		return Decision{}, failed(`A result of the gateway's answer has no "allowed" that is true or false.`)
	}
	if r.Limit.isNull || r.Remaining.isNull || r.Delay.isNull || r.Waited.isNull || r.Debt.isNull {
		return Decision{}, failed("A result of the gateway's answer has null as its limit, remaining, delay, waited or debt.")
	}
	decision := Decision{Allowed: *r.Allowed, Policy: asked, Reason: r.Reason, Source: FromGateway}
	if r.Policy != nil {
		decision.Policy = *r.Policy
	}
	hear := func(from figure, which figures) bool {
		if from.heard {
			decision.heard |= which
		}
		return from.heard
	}
	if hear(r.Limit, hasLimit) {
		decision.Limit = int64(r.Limit.value)
	}
	if hear(r.Remaining, hasRemaining) {
		decision.Remaining = int64(r.Remaining.value)
	}
	if hear(r.RetryAfter, hasRetryAfter) {
		decision.RetryAfter = r.RetryAfter.duration()
	}
	if hear(r.ResetAfter, hasResetAfter) {
		decision.ResetAfter = r.ResetAfter.duration()
	}
	if hear(r.Delay, hasDelay) {
		decision.Delay = r.Delay.duration()
	}
	if hear(r.Waited, hasWaited) {
		decision.Waited = r.Waited.duration()
	}
	if hear(r.Debt, hasDebt) {
		decision.Debt = int64(r.Debt.value)
	}
	return decision, nil
}

func (f figure) duration() time.Duration {
	if f.isNull {
		return Never
	}
	return durationOf(f.value)
}

// durationOf stays below Never: 292 years are the most that a Duration holds.
func durationOf(seconds float64) time.Duration {
	nanoseconds := math.Round(seconds * float64(time.Second))
	if nanoseconds >= math.MaxInt64 {
		return Never - 1
	}
	return time.Duration(nanoseconds)
}
