// Renews a hold until it is released, lost, or its client is closed.

package sluice

import (
	"context"
	"time"
)

// keep runs in a goroutine of its own. heldUntil is never later than what the gateway knows: a renewal counts from when it was sent.
func (h *Hold) keep(ttl time.Duration, heldUntil time.Time) {
	defer h.stop()
	wait := ttl / renewalsInTTL
	for {
		if left := time.Until(heldUntil); wait > left {
			wait = left
		}
		if !sleep(h.renewing, wait) {
			break
		}
		sent := time.Now()
		if !sent.Before(heldUntil) {
			h.beLost()
			return
		}
		renewed, isGone := h.renew(heldUntil)
		if h.renewing.Err() != nil {
			break
		}
		if isGone {
			h.beLost()
			return
		}
		if renewed > 0 {
			ttl, heldUntil = renewed, sent.Add(renewed)
			wait = ttl / renewalsInTTL
			continue
		}
		if wait = ttl / retriesInTTL; wait < shortestRetry {
			wait = shortestRetry
		}
	}
	if !h.isGivenUp.Load() {
		// Nobody renews it any longer. Whoever waits for the loss hears of it, without a goroutine that waits.
		time.AfterFunc(time.Until(heldUntil), h.beLost)
	}
}

// renew returns the new ttl, or 0 if nobody answered, and whether the gateway says that nothing is held any more.
func (h *Hold) renew(heldUntil time.Time) (time.Duration, bool) {
	deadline := time.Now().Add(h.client.settings.Deadline)
	if heldUntil.Before(deadline) {
		deadline = heldUntil
	}
	bounded, end := context.WithDeadline(h.renewing, deadline)
	defer end()
	answer, problem, failure := h.client.gateway.post(bounded, renewPath, h.body)
	if problem != nil || failure != nil {
		return 0, false
	}
	// An answer that cannot be read is as good as none.
	ttl, isLost, _ := readRenewal(answer)
	return ttl, isLost
}

func (h *Hold) beLost() {
	h.lose.Do(func() { close(h.lost) })
}
