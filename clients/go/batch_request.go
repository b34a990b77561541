// One request with the checks of a batch: asks it, tells each check what came of it, and asks again for those that were refused with another.

package sluice

import (
	"bytes"
	"net/http"
	"time"
)

func (c *Client) askBatch(request *batch) {
	c.askTogether(request, request.checks, true)
}

// askTogether settles all of the checks, unless nobody waits for them any longer. isFirst says whether those that the gateway does not name as
// wrong may go together once more.
func (c *Client) askTogether(request *batch, checks []*pending, isFirst bool) {
	if failure := c.pause.now(); failure != nil {
		c.settleByFailure(checks, failure)
		return
	}
	checks = c.batches.share(checks)
	if len(checks) == 0 {
		return
	}
	sent := time.Now()
	answer, problem, failure := c.gateway.post(request.ctx, checkPath, bodyOf(checks))
	var decisions []Decision
	if answer != nil {
		_, decisions, failure = readAnswer(answer, policiesOf(checks))
	}
	switch {
	case failure != nil && request.ctx.Err() != nil:
		// All have left. If the deadline was the reason, the last of them has reported the failure.
	case failure != nil && failure.wasKept:
		c.settleByFailure(checks, failure)
	case failure != nil:
		c.pause.begin(failure, c.settings.pause, time.Now())
		c.settleByFailure(checks, failure)
		c.settleByFailure(c.batches.takeWaiting(), failure)
	case problem != nil:
		c.settleProblem(request, checks, problem, isFirst)
	default:
		for i, check := range checks {
			c.refusals.remember(check.counter, check.check.cost, decisions[i], sent)
			c.batches.settle(check, decisions[i], nil)
		}
	}
}

// settleProblem ends the checks that are wrong, and asks again for the others. Nothing was charged.
func (c *Client) settleProblem(request *batch, checks []*pending, problem *Error, isFirst bool) {
	if len(checks) == 1 || problem.Status != http.StatusBadRequest && problem.Status != http.StatusNotFound {
		for i, check := range checks {
			c.batches.settle(check, Decision{}, problem.relativeTo(i))
		}
		return
	}
	var others []*pending
	for i, check := range checks {
		if own := problem.ofCheck(i); own != nil {
			c.batches.settle(check, Decision{}, own)
		} else {
			others = append(others, check)
		}
	}
	if isFirst && len(others) < len(checks) {
		c.askTogether(request, others, false)
		return
	}
	// The gateway looks for one kind of mistake after the other, and lists a number of them only. A check by itself hears of its own.
	for i := range others {
		c.askTogether(request, others[i:i+1], false)
	}
}

func (c *Client) settleByFailure(checks []*pending, failure *failure) {
	for _, check := range checks {
		c.batches.settle(check, c.byFailure(check.check.policy, failure), nil)
	}
}

func bodyOf(checks []*pending) []byte {
	var body bytes.Buffer
	body.WriteString(batchStart)
	for i, check := range checks {
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(check.body)
	}
	body.WriteString(batchEnd)
	return body.Bytes()
}

func policiesOf(checks []*pending) []string {
	policies := make([]string, len(checks))
	for i, check := range checks {
		policies[i] = check.check.policy
	}
	return policies
}
