// Requests that no other call shares, and what any failed request means for the calls that wait.

package sluice

import (
	"context"
	"time"
)

// askAlone sends one request and lets read take the answer. It returns whether anything was sent, and a failure or an error if there is no
// answer. The end of ctx is no failure of the gateway: it closes the connection, so that the gateway frees the caller's place.
func (c *Client) askAlone(
	ctx context.Context, path string, body []byte, deadline time.Duration, read func([]byte) *failure,
) (bool, *failure, error) {
	if failure := c.pause.now(); failure != nil {
		return false, failure, nil
	}
	bounded, end := context.WithTimeout(ctx, deadline)
	defer end()
	answer, problem, failure := c.gateway.post(bounded, path, body)
	if problem != nil {
		return true, nil, problem
	}
	if failure == nil {
		failure = read(answer)
	}
	if failure == nil {
		return true, nil, nil
	}
	if err := ctx.Err(); err != nil {
		return true, nil, err
	}
	if bounded.Err() != nil {
		failure = failed("The gateway did not answer within %v.", deadline)
	}
	if !failure.wasKept {
		c.fail(failure)
	}
	return true, failure, nil
}

// fail starts the pause, and decides the checks in the queue: nobody will be asked for them.
func (c *Client) fail(failure *failure) {
	c.pause.begin(failure, c.settings.pause, time.Now())
	c.settleByFailure(c.batches.takeWaiting(), failure)
}
