// Remembers refusals: as long as a limit cannot allow a check, nobody needs to be asked. What is remembered ends before the limit may allow
// again, so no call is refused that the gateway would have allowed, except after a reset by an operator.

package sluice

import (
	"container/list"
	"sync"
	"time"
)

type refusals struct {
	mu      sync.Mutex
	longest time.Duration
	most    int
	entries map[string]*list.Element
	// From the oldest to the newest.
	order list.List
}

type refusal struct {
	counter  string
	cost     *int64
	decision Decision
	asked    time.Time
	until    time.Time
}

func newRefusals(longest time.Duration, most int) *refusals {
	return &refusals{longest: longest, most: most, entries: map[string]*list.Element{}}
}

// remember takes a decision of the gateway: a refusal replaces what is remembered of its counter, and an allowed check forgets it. The time
// counts from when the request was sent, because the gateway decided after that.
func (r *refusals) remember(counter string, cost *int64, decision Decision, asked time.Time) {
	if r.longest == 0 || !decision.Allowed && !decision.isRefusalByLimit() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(r.entries[counter])
	// The gateway rounds up, so the limit may allow up to a second earlier.
	lasts := decision.RetryAfter - time.Second
	if lasts > r.longest {
		lasts = r.longest
	}
	if decision.Allowed || lasts <= 0 {
		return
	}
	r.entries[counter] = r.order.PushBack(&refusal{counter, cost, decision, asked, asked.Add(lasts)})
	if r.order.Len() > r.most {
		r.drop(r.order.Front())
	}
}

// recall returns the refusal of a check, if a check that cost the same or less is still refused.
func (r *refusals) recall(counter string, cost *int64, now time.Time) (Decision, bool) {
	if r.longest == 0 {
		return Decision{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	element := r.entries[counter]
	if element == nil {
		return Decision{}, false
	}
	entry := element.Value.(*refusal)
	if !now.Before(entry.until) {
		r.drop(element)
		return Decision{}, false
	}
	if (cost == nil) != (entry.cost == nil) || cost != nil && *cost < *entry.cost {
		return Decision{}, false
	}
	decision := entry.decision
	decision.Source = FromMemory
	decision.RetryAfter = leftOf(decision.RetryAfter, now.Sub(entry.asked))
	decision.ResetAfter = leftOf(decision.ResetAfter, now.Sub(entry.asked))
	return decision, true
}

// forget is called when the gateway has allowed the counter something.
func (r *refusals) forget(counter string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(r.entries[counter])
}

func (r *refusals) drop(element *list.Element) {
	if element == nil {
		return
	}
	delete(r.entries, element.Value.(*refusal).counter)
	r.order.Remove(element)
}

// leftOf returns whole seconds, rounded up.
func leftOf(heard, passed time.Duration) time.Duration {
	if heard == Never {
		return Never
	}
	left := heard - passed
	if left <= 0 {
		return 0
	}
	return (left + time.Second - 1) / time.Second * time.Second
}
