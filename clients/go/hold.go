// Holds: slots of a limit of concurrency, renewed in the background for as long as the work lasts.

package sluice

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

// Held is the decision about a hold.
type Held struct {
	Decision
	// Hold is nil if the decision is not allowed.
	Hold *Hold
}

// Hold is what a caller holds until it releases it.
type Hold struct {
	client *Client
	// The gateway's name of it as a request has it. Nil: it has no slots, because nobody could be asked.
	body []byte
	// Ends when the hold is released, or the client closed.
	renewing context.Context
	stop     context.CancelFunc
	lost     chan struct{}
	lose     sync.Once
	// Whether Release was called: then the end of the renewals is no loss.
	isGivenUp  atomic.Bool
	isReleased atomic.Bool
}

const (
	triesToRelease  = 3
	betweenReleases = 100 * time.Millisecond
	shortestRetry   = 100 * time.Millisecond
	renewalsInTTL   = 3
	retriesInTTL    = 10
)

// Hold takes as many slots as Slots says, and renews them until they are released. With MaxWait, it waits in line for them.
func (c *Client) Hold(ctx context.Context, policy string, key []string, options ...HoldOption) (*Held, error) {
	began := time.Now()
	check := CheckOf(policy, key)
	for _, option := range options {
		option.apply(&check)
	}
	held, isAsked, err := c.hold(ctx, &check)
	c.tell(ctx, "hold", policy, began, held.Allowed, held.Source, sizeIf(isAsked, 1), err)
	if err != nil {
		return nil, err
	}
	return held, nil
}

func (c *Client) hold(ctx context.Context, check *Check) (*Held, bool, error) {
	held := &Held{}
	body, err := c.begin(ctx, check)
	if err != nil {
		return held, false, err
	}
	var text string
	var ttl time.Duration
	read := func(answer []byte) (failure *failure) {
		held.Decision, text, ttl, failure = readHoldAnswer(answer, check.policy)
		return failure
	}
	isAsked, failure, err := c.askAlone(ctx, holdPath, body, c.deadlineOf(check), read)
	if failure != nil {
		held.Decision = c.byFailure(check.policy, failure)
	}
	if err == nil && held.Allowed {
		held.Hold, err = c.newHold(text, ttl)
	}
	return held, isAsked, err
}

// newHold begins to renew the hold. Without a text, there is nothing to renew.
func (c *Client) newHold(text string, ttl time.Duration) (*Hold, error) {
	hold := &Hold{client: c, lost: make(chan struct{})}
	if text == "" {
		return hold, nil
	}
	body, err := json.Marshal(map[string]string{"hold": text})
	if err != nil {
		return nil, err
	}
	hold.body = body
	hold.renewing, hold.stop = context.WithCancel(c.open)
	go hold.keep(ttl, time.Now().Add(ttl))
	return hold, nil
}

// Lost returns a channel that is closed when the slots are not held any more, although nobody released them: stop the work, or take new ones.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Release frees the slots. It may be called often. If nobody answers, it gives up without an error, because the slots are free after their ttl.
// An error is ctx.Err(), ErrClosed, or what the gateway says about the token.
func (h *Hold) Release(ctx context.Context) error {
	if h.body == nil || h.isReleased.Load() {
		return nil
	}
	if h.client.isClosed() {
		return ErrClosed
	}
	h.isGivenUp.Store(true)
	h.stop()
	for try := 0; try < triesToRelease && !h.isReleased.Load(); try++ {
		if try > 0 && !sleep(ctx, betweenReleases) {
			return ctx.Err()
		}
		if err := h.releaseOnce(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hold) releaseOnce(ctx context.Context) error {
	bounded, end := context.WithTimeout(ctx, h.client.settings.Deadline)
	defer end()
	answer, problem, failure := h.client.gateway.post(bounded, releasePath, h.body)
	switch {
	case problem != nil:
		return problem
	case failure == nil:
		h.isReleased.Store(readRelease(answer) == nil)
	}
	if h.isReleased.Load() {
		return nil
	}
	return ctx.Err()
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
