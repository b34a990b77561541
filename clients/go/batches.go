// The queue of checks: the first go at once, and those that come while enough requests are under way go together when one of these ends.

package sluice

import (
	"container/list"
	"context"
	"sync"
)

const (
	batchStart = `{"mode":"each","checks":[`
	batchEnd   = `]}`
	// The gateway accepts 64 KiB.
	mostBodyBytes = 60 << 10
)

type batches struct {
	mu          sync.Mutex
	waiting     list.List
	inFlight    int
	maxInFlight int
	maxBatch    int
	ask         func(*batch)
}

func newBatches(maxInFlight, maxBatch int, ask func(*batch)) *batches {
	return &batches{maxInFlight: maxInFlight, maxBatch: maxBatch, ask: ask}
}

// add lets the check go at once, or puts it at the end of the queue.
func (b *batches) add(check *pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// While something waits, as many requests as may be are under way.
	if b.inFlight == b.maxInFlight {
		check.place = b.waiting.PushBack(check)
		return
	}
	b.inFlight++
	go b.run(newBatch([]*pending{check}))
}

func (b *batches) run(next *batch) {
	for next != nil {
		b.ask(next)
		next.end()
		next = b.next()
	}
}

// next takes from the queue what fits into a request.
func (b *batches) next() *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes := len(batchStart) + len(batchEnd)
	var checks []*pending
	for b.waiting.Len() > 0 && len(checks) < b.maxBatch {
		check := b.waiting.Front().Value.(*pending)
		// A comma follows each but the last.
		bytes += len(check.body) + 1
		if bytes-1 > mostBodyBytes && len(checks) > 0 {
			break
		}
		b.waiting.Remove(check.place)
		check.place = nil
		checks = append(checks, check)
	}
	if len(checks) == 0 {
		b.inFlight--
		return nil
	}
	return newBatch(checks)
}

func newBatch(checks []*pending) *batch {
	ctx, end := context.WithCancel(context.Background())
	request := &batch{checks: checks, ctx: ctx, end: end, waiting: len(checks)}
	for _, check := range checks {
		check.request = request
	}
	return request
}

// takeWaiting empties the queue.
func (b *batches) takeWaiting() []*pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	var checks []*pending
	for b.waiting.Len() > 0 {
		check := b.waiting.Front().Value.(*pending)
		b.waiting.Remove(check.place)
		check.place = nil
		checks = append(checks, check)
	}
	return checks
}
