// A decision: what callers get, and what it is as JSON.

package sluice

import (
	"encoding/json"
	"math"
	"time"
)

// Source says who decided.
type Source string

const (
	// FromGateway is a decision that the gateway made for this call.
	FromGateway Source = "gateway"
	// FromMemory is a refusal that the client remembers.
	FromMemory Source = "memory"
	// FromFailure is a decision by Options.OnFailure, because nobody could be asked.
	FromFailure Source = "failure"
)

// Never is the RetryAfter of a check that waiting cannot help, and the ResetAfter of a limit that never starts again.
const Never = time.Duration(math.MaxInt64)

// Decision is the answer to one check.
type Decision struct {
	Allowed bool
	Policy  string
	// Limit, Remaining, RetryAfter and ResetAfter are those of the most restrictive limit. They are 0 if no limit decided: see HasFigures.
	Limit, Remaining       int64
	RetryAfter, ResetAfter time.Duration
	// Delay is set for a leaky bucket only: wait so long, then go on.
	Delay time.Duration
	// Waited is set by Acquire, and by Hold with MaxWait: so long the call was in line.
	Waited time.Duration
	// Debt is set by Report: the units that it charged beyond what was left. It is 0 if no limit decided.
	Debt int64
	// Reason is set if no limit decided: off, exempt, banned, shadow, key-missing, undecided or failure.
	Reason string
	Source Source
	// Failure is one sentence that says what failed, if the source is FromFailure.
	Failure string

	heard figures
}

// figures says which figures a decision has: each is one bit.
type figures uint8

const (
	hasLimit figures = 1 << iota
	hasRemaining
	hasRetryAfter
	hasResetAfter
	hasDelay
	hasWaited
	hasDebt
)

func (d *Decision) has(figure figures) bool { return d.heard&figure != 0 }

// HasFigures says whether a limit decided.
func (d Decision) HasFigures() bool { return d.has(hasLimit) }

// isRefusalByLimit says whether there is a time after which it may be allowed. Only such a refusal is remembered.
func (d *Decision) isRefusalByLimit() bool {
	return !d.Allowed && d.Reason == "" && d.has(hasRetryAfter) && d.RetryAfter != Never
}

// asReport gives the decision the debt that each report has, and wants to hear it of a limit.
func (d *Decision) asReport() *failure {
	if !d.has(hasDebt) && d.Reason == "" {
		return failed(`The gateway's answer to a report has no "debt".`)
	}
	d.heard |= hasDebt
	return nil
}

// MarshalJSON writes the fields as the check API has them: seconds, null for Never, and nothing for a figure that the decision has not.
func (d Decision) MarshalJSON() ([]byte, error) {
	number := func(figure figures, value int64) *int64 {
		if !d.has(figure) {
			return nil
		}
		return &value
	}
	seconds := func(figure figures, value time.Duration) any {
		if !d.has(figure) {
			return nil
		}
		if value == Never {
			return json.RawMessage("null")
		}
		return value.Seconds()
	}
	return json.Marshal(struct {
		Allowed    bool   `json:"allowed"`
		Policy     string `json:"policy"`
		Limit      *int64 `json:"limit,omitempty"`
		Remaining  *int64 `json:"remaining,omitempty"`
		RetryAfter any    `json:"retryAfter,omitempty"`
		ResetAfter any    `json:"resetAfter,omitempty"`
		Delay      any    `json:"delay,omitempty"`
		Waited     any    `json:"waited,omitempty"`
		Debt       *int64 `json:"debt,omitempty"`
		Reason     string `json:"reason,omitempty"`
		Source     Source `json:"source"`
		Failure    string `json:"failure,omitempty"`
	}{
		d.Allowed, d.Policy, number(hasLimit, d.Limit), number(hasRemaining, d.Remaining),
		seconds(hasRetryAfter, d.RetryAfter), seconds(hasResetAfter, d.ResetAfter), seconds(hasDelay, d.Delay),
		seconds(hasWaited, d.Waited), number(hasDebt, d.Debt), d.Reason, d.Source, d.Failure,
	})
}

// AllDecision is the answer to checks that are charged all or none.
type AllDecision struct {
	// Allowed says whether all are allowed. If not, nothing was charged.
	Allowed bool       `json:"allowed"`
	Results []Decision `json:"results"`
	Source  Source     `json:"source"`
	Failure string     `json:"failure,omitempty"`
}

// byFailure decides in place of a gateway that did not answer.
func (c *Client) byFailure(policy string, failure *failure) Decision {
	return Decision{
		Allowed: c.settings.OnFailure == Allow,
		Policy:  policy,
		Reason:  "failure",
		Source:  FromFailure,
		Failure: failure.sentence,
	}
}
