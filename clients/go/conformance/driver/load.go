// Repeats a call by many callers for some seconds, and says how many there were and how long they took.

package main

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	sluice "sluice/client"
)

type loadLine struct {
	Callers int     `json:"callers"`
	Seconds float64 `json:"seconds"`
	Call    call    `json:"call"`
	Keys    int64   `json:"keys"`
}

type loadResult struct {
	Calls    int     `json:"calls"`
	Allowed  int     `json:"allowed"`
	Refused  int     `json:"refused"`
	Errors   int     `json:"errors"`
	Failures int     `json:"failures"`
	Seconds  float64 `json:"seconds"`
	P50Ms    float64 `json:"p50Ms"`
	P99Ms    float64 `json:"p99Ms"`
}

// tally is what one caller has counted.
type tally struct {
	loadResult
	took []time.Duration
}

func (d *driver) load(load *loadLine) any {
	if len(load.Call.Key) == 0 && load.Keys > 1 {
		return message{"the call has no key value that could vary"}
	}
	tallies := make([]tally, load.Callers)
	var count atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	end := began.Add(time.Duration(load.Seconds * float64(time.Second)))
	for i := range tallies {
		all.Add(1)
		go func(t *tally) {
			defer all.Done()
			for time.Now().Before(end) {
				d.repeat(load, count.Add(1)-1, t)
			}
		}(&tallies[i])
	}
	all.Wait()
	return sumOf(tallies, time.Since(began))
}

func (d *driver) repeat(load *loadLine, n int64, t *tally) {
	call := load.Call
	if load.Keys > 1 {
		call.Key = append([]string{}, call.Key...)
		call.Key[len(call.Key)-1] += fmt.Sprintf("-%d", n%load.Keys)
	}
	began := time.Now()
	allowed, source, err := d.once(&call)
	t.took = append(t.took, time.Since(began))
	t.Calls++
	switch {
	case err != nil:
		t.Errors++
	case allowed:
		t.Allowed++
	default:
		t.Refused++
	}
	if err == nil && source == sluice.FromFailure {
		t.Failures++
	}
}

// once makes the call. A hold is released at once.
func (d *driver) once(call *call) (bool, sluice.Source, error) {
	ctx := context.Background()
	switch call.Call {
	case "checkAll":
		decision, err := d.client.CheckAll(ctx, checksOf(call.Checks)...)
		return decision.Allowed, decision.Source, err
	case "hold":
		held, err := d.client.Hold(ctx, call.Policy, call.Key, holdOptionsOf(call)...)
		if err != nil {
			return false, "", err
		}
		if held.Hold != nil {
			err = held.Hold.Release(ctx)
		}
		return held.Allowed, held.Source, err
	}
	decision, err := d.decide(ctx, call)
	return decision.Allowed, decision.Source, err
}

func sumOf(tallies []tally, took time.Duration) loadResult {
	sum := loadResult{Seconds: took.Seconds()}
	var times []time.Duration
	for _, t := range tallies {
		sum.Calls += t.Calls
		sum.Allowed += t.Allowed
		sum.Refused += t.Refused
		sum.Errors += t.Errors
		sum.Failures += t.Failures
		times = append(times, t.took...)
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	at := func(share float64) float64 {
		if len(times) == 0 {
			return 0
		}
		return times[int(share*float64(len(times)-1))].Seconds() * 1000
	}
	sum.P50Ms, sum.P99Ms = at(0.5), at(0.99)
	return sum
}
