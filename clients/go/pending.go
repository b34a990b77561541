// A check that waits for its decision, the request that it shares, and the three ways in which its waiting ends: it is settled, its deadline
// passes, or its context ends. Whichever comes first counts, under the lock of the queue.

package sluice

import (
	"container/list"
	"context"
)

// pending is a check that waits for its decision.
type pending struct {
	check   Check
	counter string
	body    []byte
	// Closed when it is settled.
	done chan struct{}

	// The others are guarded by batches.mu until done is closed.
	place    *list.Element
	request  *batch
	isOver   bool
	decision Decision
	err      error
	// How many checks its request has; 0 before it is in one.
	batchSize int
}

// batch is what shares a request. If the gateway refuses it as a whole, parts of it are asked again in its place.
type batch struct {
	checks []*pending
	// Ends when none of its checks waits any longer.
	ctx     context.Context
	end     context.CancelFunc
	waiting int
	// Whether the deadline of one of its checks has passed: then it has failed if nobody waits for it any longer.
	isLate bool
}

// share returns those of the checks that nobody has settled or left, and notes that they share a request now.
func (b *batches) share(checks []*pending) []*pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	var still []*pending
	for _, check := range checks {
		if !check.isOver {
			still = append(still, check)
		}
	}
	for _, check := range still {
		check.batchSize = len(still)
	}
	return still
}

// settle ends a check, unless its caller has left.
func (b *batches) settle(check *pending, decision Decision, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if check.isOver {
		return
	}
	check.decision, check.err = decision, err
	b.finish(check)
	close(check.done)
}

// leave ends a check whose caller waits no longer. It returns false if the check was settled before, and the request that nobody waits for now, if
// there is one: the caller ends it.
func (b *batches) leave(check *pending, isLate bool) (left bool, abandoned *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if check.isOver {
		return false, nil
	}
	b.finish(check)
	if check.request == nil {
		return true, nil
	}
	check.request.isLate = check.request.isLate || isLate
	if check.request.waiting > 0 {
		return true, nil
	}
	return true, check.request
}

func (b *batches) finish(check *pending) {
	check.isOver = true
	if check.place != nil {
		b.waiting.Remove(check.place)
		check.place = nil
	}
	if check.request != nil {
		check.request.waiting--
	}
}
