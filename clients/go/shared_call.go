// The call that shares requests: Check. It is decided from memory or by the pause at once, else by its place in a batch, its deadline or its
// context, whichever comes first.

package sluice

import (
	"context"
	"time"
)

// Check asks whether the key may have its units now, and charges them if so. If it costs 0, it only looks, by a request of its own. An error
// is the caller's mistake, or ctx.Err().
func (c *Client) Check(ctx context.Context, policy string, key []string, options ...CallOption) (Decision, error) {
	began := time.Now()
	check := CheckOf(policy, key, options...)
	if check.onlyLooks() {
		return c.askOne(ctx, "check", check)
	}
	decision, batch, err := c.check(ctx, check, began)
	c.tell(ctx, "check", policy, began, decision.Allowed, decision.Source, batch, err)
	return decision, err
}

func (c *Client) check(ctx context.Context, check Check, began time.Time) (Decision, int, error) {
	body, err := c.begin(ctx, &check)
	if err != nil {
		return Decision{}, 0, err
	}
	counter := check.counter()
	if decision, isKnown := c.refusals.recall(counter, check.cost, began); isKnown {
		return decision, 0, nil
	}
	if failure := c.pause.now(); failure != nil {
		return c.byFailure(check.policy, failure), 0, nil
	}
	waiting := &pending{check: check, counter: counter, body: body, done: make(chan struct{})}
	c.batches.add(waiting)
	timer := time.NewTimer(c.settings.Deadline - time.Since(began))
	defer timer.Stop()
	select {
	case <-waiting.done:
	case <-ctx.Done():
		if left, abandoned := c.batches.leave(waiting, false); left {
			c.abandon(abandoned)
			return Decision{}, waiting.batchSize, ctx.Err()
		}
	case <-timer.C:
		if left, abandoned := c.batches.leave(waiting, true); left {
			c.abandon(abandoned)
			return c.late(waiting), waiting.batchSize, nil
		}
	}
	return waiting.decision, waiting.batchSize, waiting.err
}

// late decides a check whose deadline has passed.
func (c *Client) late(waiting *pending) Decision {
	if waiting.request == nil {
		return c.byFailure(waiting.check.policy, failed("There was no place in a request within %v.", c.settings.Deadline))
	}
	return c.byFailure(waiting.check.policy, c.noAnswer())
}

// abandon ends a request that nobody waits for. If a deadline was the reason, the pause begins before the request ends: the next one would go
// at once.
func (c *Client) abandon(request *batch) {
	if request == nil {
		return
	}
	if request.isLate {
		c.fail(c.noAnswer())
	}
	request.end()
}

func (c *Client) noAnswer() *failure {
	return failed("The gateway did not answer within %v.", c.settings.Deadline)
}
