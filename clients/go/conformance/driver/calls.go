// Makes the calls of a line, each in a goroutine, and writes what came of them.

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	sluice "sluice/client"
)

type call struct {
	Call      string   `json:"call"`
	Policy    string   `json:"policy"`
	Key       []string `json:"key"`
	Cost      *int64   `json:"cost"`
	Plan      *string  `json:"plan"`
	Slots     *int64   `json:"slots"`
	TTLMs     *float64 `json:"ttlMs"`
	MaxWaitMs *float64 `json:"maxWaitMs"`
	As        string   `json:"as"`
	Hold      string   `json:"hold"`
	Checks    []oneOf  `json:"checks"`
}

type oneOf struct {
	Policy string   `json:"policy"`
	Key    []string `json:"key"`
	Cost   *int64   `json:"cost"`
	Plan   *string  `json:"plan"`
}

// startedContext tells when a call has begun to wait: the client asks for Done once the call has its place. So calls start in order, although
// each has a goroutine.
type startedContext struct {
	context.Context
	once    sync.Once
	started chan struct{}
}

func (c *startedContext) Done() <-chan struct{} {
	c.start()
	return c.Context.Done()
}

func (c *startedContext) start() {
	c.once.Do(func() { close(c.started) })
}

func (d *driver) doAll(calls []call) []any {
	results := make([]any, len(calls))
	var all sync.WaitGroup
	for i := range calls {
		ctx := &startedContext{Context: context.Background(), started: make(chan struct{})}
		all.Add(1)
		go func(i int) {
			defer all.Done()
			defer ctx.start()
			results[i] = d.do(ctx, &calls[i])
		}(i)
		<-ctx.started
	}
	all.Wait()
	return results
}

func (d *driver) do(ctx context.Context, call *call) any {
	switch call.Call {
	case "checkAll":
		return resultOf(d.client.CheckAll(ctx, checksOf(call.Checks)...))
	case "hold":
		return d.hold(ctx, call)
	case "release", "isLost":
		return d.ofHold(ctx, call)
	}
	return resultOf(d.decide(ctx, call))
}

// decide makes a call of a single check.
func (d *driver) decide(ctx context.Context, call *call) (sluice.Decision, error) {
	options := optionsOf(call.Cost, call.Plan)
	switch call.Call {
	case "check":
		return d.client.Check(ctx, call.Policy, call.Key, options...)
	case "peek":
		return d.client.Peek(ctx, call.Policy, call.Key, options...)
	case "report":
		return d.client.Report(ctx, call.Policy, call.Key, options...)
	case "acquire":
		return d.client.Acquire(ctx, call.Policy, call.Key, timeOf(call.MaxWaitMs), options...)
	}
	return sluice.Decision{}, fmt.Errorf("there is no call %q", call.Call)
}

func (d *driver) hold(ctx context.Context, call *call) any {
	held, err := d.client.Hold(ctx, call.Policy, call.Key, holdOptionsOf(call)...)
	if err != nil {
		return errorOf(err)
	}
	if held.Hold != nil {
		d.mu.Lock()
		d.holds[call.As] = held.Hold
		d.mu.Unlock()
	}
	return heldResult{held.Decision, held.Hold != nil}
}

func (d *driver) ofHold(ctx context.Context, call *call) any {
	d.mu.Lock()
	hold := d.holds[call.Hold]
	d.mu.Unlock()
	if hold == nil {
		return errorOf(fmt.Errorf("there is no hold %q", call.Hold))
	}
	if call.Call == "release" {
		if err := hold.Release(ctx); err != nil {
			return errorOf(err)
		}
		return map[string]bool{"released": true}
	}
	select {
	case <-hold.Lost():
		return map[string]bool{"lost": true}
	default:
		return map[string]bool{"lost": false}
	}
}

func optionsOf(cost *int64, plan *string) []sluice.CallOption {
	var options []sluice.CallOption
	if cost != nil {
		options = append(options, sluice.Cost(*cost))
	}
	if plan != nil {
		options = append(options, sluice.Plan(*plan))
	}
	return options
}

func holdOptionsOf(call *call) []sluice.HoldOption {
	var options []sluice.HoldOption
	if call.Slots != nil {
		options = append(options, sluice.Slots(*call.Slots))
	}
	if call.TTLMs != nil {
		options = append(options, sluice.TTL(timeOf(call.TTLMs)))
	}
	if call.Plan != nil {
		options = append(options, sluice.Plan(*call.Plan))
	}
	if call.MaxWaitMs != nil {
		options = append(options, sluice.MaxWait(timeOf(call.MaxWaitMs)))
	}
	return options
}

func checksOf(asked []oneOf) []sluice.Check {
	checks := make([]sluice.Check, len(asked))
	for i, check := range asked {
		checks[i] = sluice.CheckOf(check.Policy, check.Key, optionsOf(check.Cost, check.Plan)...)
	}
	return checks
}

func timeOf(ms *float64) time.Duration {
	if ms == nil {
		return 0
	}
	return time.Duration(*ms * float64(time.Millisecond))
}
