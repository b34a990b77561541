// For a short time after a failure nobody is asked, so that callers do not wait for a gateway that is away, each for its whole deadline.

package sluice

import (
	"errors"
	"strconv"
	"sync"
	"time"
)

const longestPause = 5 * time.Second

type pause struct {
	mu       sync.Mutex
	until    time.Time
	sentence string
}

// begin starts the pause that follows a failure. A pause that ends later stays.
func (p *pause) begin(failure *failure, usual time.Duration, now time.Time) {
	length := usual
	if failure.retryAfter > 0 {
		length = failure.retryAfter
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := now.Add(length); until.After(p.until) {
		p.until = until
		p.sentence = "Nobody is asked for a moment after a failure. " + failure.sentence
	}
}

// now returns the failure with which calls end during the pause, and nil outside of it.
func (p *pause) now() *failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until.IsZero() || !time.Now().Before(p.until) {
		return nil
	}
	return &failure{sentence: p.sentence}
}

// readRetryAfter reads whole seconds above 0. It returns 0 if the header is absent or says anything else: a date would need the gateway's clock.
func readRetryAfter(text string) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 64)
	// A number that is out of range is read as the largest one.
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	if seconds > uint64(longestPause/time.Second) {
		return longestPause
	}
	return time.Duration(seconds) * time.Second
}
