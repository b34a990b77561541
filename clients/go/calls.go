// The calls that have a request of their own: CheckAll, Peek, Report and Acquire. Hold is in hold.go.

package sluice

import (
	"bytes"
	"context"
	"time"
)

// CheckAll asks for several checks at once: all are charged, or none.
func (c *Client) CheckAll(ctx context.Context, checks ...Check) (AllDecision, error) {
	began := time.Now()
	policy := ""
	if len(checks) > 0 {
		policy = checks[0].policy
	}
	decision, batch, err := c.checkAll(ctx, checks)
	c.tell(ctx, "checkAll", policy, began, decision.Allowed, decision.Source, batch, err)
	return decision, err
}

func (c *Client) checkAll(ctx context.Context, checks []Check) (AllDecision, int, error) {
	if len(checks) == 0 {
		return AllDecision{}, 0, &OptionError{"checks", "1 to 100 checks", "none"}
	}
	written := make([][]byte, len(checks))
	policies := make([]string, len(checks))
	for i := range checks {
		body, err := c.begin(ctx, &checks[i])
		if err != nil {
			return AllDecision{}, 0, err
		}
		written[i], policies[i] = body, checks[i].policy
	}
	decision := AllDecision{Source: FromGateway}
	read := func(answer []byte) (failure *failure) {
		decision.Allowed, decision.Results, failure = readAnswer(answer, policies)
		return failure
	}
	isAsked, failure, err := c.askAlone(ctx, checkPath, listOf(written), c.settings.Deadline, read)
	if failure != nil {
		decision = AllDecision{Allowed: c.settings.OnFailure == Allow, Source: FromFailure, Failure: failure.sentence}
		for _, policy := range policies {
			decision.Results = append(decision.Results, c.byFailure(policy, failure))
		}
	}
	if err != nil {
		decision = AllDecision{}
	}
	return decision, sizeIf(isAsked, len(checks)), err
}

// Peek says what a Check would hear now, and charges nothing.
func (c *Client) Peek(ctx context.Context, policy string, key []string, options ...CallOption) (Decision, error) {
	check := CheckOf(policy, key, options...)
	check.peek = true
	return c.askOne(ctx, "peek", check)
}

// Report charges what was used already, also beyond what is left. After a failure, nobody knows whether it was charged.
func (c *Client) Report(ctx context.Context, policy string, key []string, options ...CallOption) (Decision, error) {
	check := CheckOf(policy, key, options...)
	check.report = true
	return c.askOne(ctx, "report", check)
}

// Acquire waits in line until the key may have its units, and for maxWait at most: 1 ms to 60 s, in whole milliseconds. If ctx ends, the call
// leaves the line and nothing is charged.
func (c *Client) Acquire(ctx context.Context, policy string, key []string, maxWait time.Duration, options ...CallOption) (Decision, error) {
	check := CheckOf(policy, key, options...)
	check.maxWait = &maxWait
	return c.askOne(ctx, "acquire", check)
}

func (c *Client) askOne(ctx context.Context, call string, check Check) (Decision, error) {
	began := time.Now()
	decision, isAsked, err := c.one(ctx, check)
	if err == nil && decision.Allowed && decision.Source == FromGateway && check.maxWait != nil {
		c.refusals.forget(check.counter())
	}
	c.tell(ctx, call, check.policy, began, decision.Allowed, decision.Source, sizeIf(isAsked, 1), err)
	return decision, err
}

func (c *Client) one(ctx context.Context, check Check) (Decision, bool, error) {
	body, err := c.begin(ctx, &check)
	if err != nil {
		return Decision{}, false, err
	}
	var decision Decision
	read := func(answer []byte) *failure {
		_, decisions, failure := readAnswer(answer, []string{check.policy})
		if failure == nil {
			decision = decisions[0]
		}
		if failure == nil && check.report {
			failure = decision.asReport()
		}
		return failure
	}
	isAsked, failure, err := c.askAlone(ctx, checkPath, listOf([][]byte{body}), c.deadlineOf(&check), read)
	if failure != nil {
		decision = c.byFailure(check.policy, failure)
		if check.report {
			decision.heard |= hasDebt
		}
	}
	if problem, isProblem := err.(*Error); isProblem {
		err = problem.relativeTo(0)
	}
	return decision, isAsked, err
}

// begin returns the check as JSON, if the call may be made at all.
func (c *Client) begin(ctx context.Context, check *Check) ([]byte, error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return check.written()
}

func (c *Client) deadlineOf(check *Check) time.Duration {
	if check.maxWait == nil {
		return c.settings.Deadline
	}
	return c.settings.Deadline + *check.maxWait
}

func listOf(written [][]byte) []byte {
	return append(append([]byte(`{"checks":[`), bytes.Join(written, []byte(","))...), batchEnd...)
}

func sizeIf(isAsked bool, size int) int {
	if isAsked {
		return size
	}
	return 0
}
