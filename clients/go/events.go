// The metrics hook: one event for each decision or error of a call.

package sluice

import (
	"context"
	"errors"
	"time"
)

// Event is the decision or the error with which one call ended.
type Event struct {
	// Call is check, checkAll, peek, report, acquire or hold.
	Call string
	// Policy is that of the check; of checkAll, that of the first.
	Policy string
	// Outcome is allowed, refused or error.
	Outcome string
	// Source is empty if the call ended with an error.
	Source Source
	// Seconds from the call to its end.
	Seconds float64
	// Batch is how many checks the call's request had; 0 without a request.
	Batch int
}

// tell makes no event of a call that the end of its context has ended: nothing was decided.
func (c *Client) tell(ctx context.Context, call, policy string, began time.Time, allowed bool, source Source, batch int, err error) {
	hook := c.settings.OnEvent
	if hook == nil || err != nil && errors.Is(err, ctx.Err()) {
		return
	}
	event := Event{Call: call, Policy: policy, Outcome: "refused", Source: source, Seconds: time.Since(began).Seconds(), Batch: batch}
	if allowed {
		event.Outcome = "allowed"
	}
	if err != nil {
		event.Outcome, event.Source = "error", ""
	}
	defer func() { _ = recover() }()
	hook(event)
}
